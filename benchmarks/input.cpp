// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loader alone on a folder of photographs, for benchmarks/input.sh: lines of
// `name seconds`, per image, minima over epochs. `.cpu` is the processor time of all threads.
//
//   cordee            random_resized_crop to 224, horizontal flip
//   cordee.scaled     the same with scaled decoding
//   libjpeg-turbo     the whole decode of each file, in one thread, and nothing else
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/horizontal_flip.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/image_folder.hpp>

#include "benchmarks/options.hpp"

using namespace cordee;

namespace {

int threads = 2, batch_size = 64, epochs = 5, statistics = 0;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct least {
  double wall = 1e9, processor = 1e9;

  template <class F>
  void time(double images, const F& f) {
    const double wall_begin = bench::now(), processor_begin = processor_seconds();
    f();
    processor = std::min(processor, (processor_seconds() - processor_begin) / images);
    wall = std::min(wall, (bench::now() - wall_begin) / images);
  }
  void print(const char* name) const {
    std::printf("%s %.9f\n%s.cpu %.9f\n", name, wall, name, processor);
  }
};

void run_loader(const char* name, const image_folder& folder, bool scaled) {
  loader feed{
      decoded_images{folder, random_resized_crop{}, {.scaled_decoding = scaled}},
      self_comm{},
      {.global_batch = batch_size, .last_batch = last_batch::drop, .decode_threads = threads},
      horizontal_flip{}};
  const std::int64_t updates = feed.steps(1);
  least seconds;
  for (int k = 0; k < 2; ++k) feed.next();
  for (int e = 0; e < epochs; ++e)
    seconds.time(static_cast<double>(updates * batch_size), [&] {
      for (std::int64_t k = 0; k < updates; ++k) feed.next();
    });
  seconds.print(name);
  if (statistics > 0) std::fprintf(stderr, "%s\n", feed.statistics().describe().c_str());
}

void run_decoder(const image_folder& folder) {
  std::vector<std::vector<std::uint8_t>> files(folder.size());
  for (std::size_t i = 0; i < files.size(); ++i) folder.read(i, files[i]);
  detail::images::decoder decoder;
  detail::core::pod_vector<std::uint8_t> rgb;
  least seconds;
  for (int e = 0; e < epochs; ++e)
    seconds.time(static_cast<double>(files.size()), [&] {
      for (std::size_t i = 0; i < files.size(); ++i) {
        const image_size size = decoder.size(files[i], folder.name(i));
        decoder.decode(files[i], folder.name(i), {0, 0, size.width, size.height}, 1, rgb);
      }
    });
  seconds.print("libjpeg-turbo");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::strncmp(argv[1], "--", 2) == 0) {
    std::fputs("usage: bench_input FOLDER [--threads 2] [--batch 64] [--epochs 5]\n", stderr);
    return 2;
  }
  bench::read_options(argc - 1, argv + 1,
                      "usage: bench_input FOLDER [--threads 2] [--batch 64] [--epochs 5] "
                      "[--statistics 1]\n",
                      {{"--threads", &threads},
                       {"--batch", &batch_size},
                       {"--epochs", &epochs},
                       {"--statistics", &statistics}});
  try {
    const image_folder folder{argv[1]};
    run_loader("cordee", folder, false);
    run_loader("cordee.scaled", folder, true);
    run_decoder(folder);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
