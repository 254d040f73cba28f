#include <cstdio>
#include <filesystem>

#include <cordee/cordee.hpp>
using namespace cordee;

// data/fashion-mnist in this folder, or in one above the program.
std::string find_images() {
  const std::filesystem::path images = "data/fashion-mnist";
  const auto program = std::filesystem::canonical("/proc/self/exe");
  for (auto up = program; !is_directory(images) && up.has_relative_path(); up = up.parent_path())
    if (is_directory(up / images)) return up / images;
  return images;
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : find_images();
  if (folder == "--help")
    return std::puts("usage: quick_start [FOLDER], by default data/fashion-mnist") < 0;
  if (!std::filesystem::is_directory(folder))
    throw error("no folder " + folder + ": pass that of Fashion-MNIST, " +
                "which is data/fashion-mnist in Cordee's sources");
  const idx images{folder + "/t10k-images-idx3-ubyte", folder + "/t10k-labels-idx1-ubyte"};
  const auto [training, held_out] = split(images, 0.1, 1);

  threads::launch(4, [&, &training = training, &held_out = held_out](threads comm) {
    resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> net;
    loader  feed{training, comm, {.global_batch = 512, .seed = 1},
                pad_crop_flip{.pad = 2, .flip = true}, normalize::fashion_mnist()};
    trainer run{net,
                lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = 0.01},
                warmup{1, polynomial{.peak = 1, .epochs = 12, .power = 2}},
                ring{comm}};
    run.fit(feed, 12, validation{held_out}, console{}, csv{"lars.csv"});
    run.save("resnet20.safetensors");
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
