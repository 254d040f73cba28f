// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-18 on a folder of photographs with a folder for each class, from their files: training on
// random crops of 224 pixels, validation on the center crop of 256, as usual for ImageNet. Ranks
// are threads of one process, or processes that mpirun or srun starts.
//
//   flowers --data photographs --ranks 2
//   examples/launch/mpirun.sh 2 build/demo/examples/flowers --data photographs --processes
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/image_folder.hpp>
#if defined(WITH_MPI)
#include <cordee/comm/mpi.hpp>
#endif

#include "options.hpp"

using namespace cordee;

namespace {

constexpr int classes = 5;  // of the photographs; a network's shape is known when it is compiled

struct plan {
  std::string data;
  int ranks, batch, decode_threads;
  double epochs, warmup, learning_rate, held_out;
  std::uint64_t seed;
  bool scaled_decoding, skip_broken, describe, processes;
};

template <class Communicator>
void train(const plan& p, const Communicator& comm) {
  const image_folder folder{p.data};
  const decoding_options decoding{
      .broken = p.skip_broken ? broken_image::skip : broken_image::refuse,
      .scaled_decoding = p.scaled_decoding};
  // The same split of the same files, each part cropped in its own way.
  const auto training =
      split(decoded_images{folder, random_resized_crop{224}, decoding}, p.held_out, p.seed)
          .training;
  const auto held_out =
      split(decoded_images{folder, resize_center_crop{256, 224}, decoding}, p.held_out, p.seed)
          .validation;

  resnet<18, fp32, cpu, resnet_options{.classes = classes}> net;
  net.loss.label_smoothing = 0.1;
  loader feed{training,
              comm,
              {.global_batch = p.batch, .seed = p.seed, .decode_threads = p.decode_threads},
              compose{horizontal_flip{}},
              normalize::imagenet()};
  trainer run{net,
              sgd{.momentum = 0.9, .weight_decay = 1e-4},
              warmup{p.warmup, cosine{.peak = p.learning_rate, .epochs = p.epochs}},
              ring{comm},
              {.seed = p.seed}};
  if (comm.rank() == 0) {
    std::printf("%s\n", describe(run, feed, p.epochs).c_str());
    std::fflush(stdout);
  }
  if (p.describe) return;

  const auto done = run.fit(feed, p.epochs, validation{held_out, 10, p.decode_threads}, console{});
  if (comm.rank() != 0) return;
  const metrics& last = *done.last.validation;
  std::printf("validation accuracy %s %% of %lld photographs, loss %s\ninput: %s\n",
              decimal::fixed(100 * last.accuracy(), 1).c_str(), static_cast<long long>(last.count),
              decimal::fixed(last.mean_loss(), 3).c_str(), feed.statistics().describe().c_str());
}

#if defined(WITH_MPI)
void train_as_processes(const plan& p) {
  mpi::launch([&](mpi comm) { train(p, comm); });
}
#else
void train_as_processes(const plan&) {
  throw error("--processes: this program was built without MPI");
}
#endif

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "flowers: ResNet-18 on a folder of photographs of five classes");
    plan p;
    p.data = o.string("data", "", "folder that contains a folder of .jpg or .png files per class");
    p.ranks = o.positive("ranks", 1, "ranks, as threads of this process");
    p.processes = o.flag("processes", "ranks are the processes of mpirun or srun instead");
    p.batch = o.positive("batch", 16, "samples of one update, over all ranks");
    p.epochs = o.number("epochs", 10, "epochs, passes over the training photographs");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 0.05, "peak learning rate");
    p.held_out =
        o.number("held-out", 0.2, "fraction of the photographs of each class for validation");
    p.seed = o.seed();
    p.decode_threads = o.whole("decode-threads", 0, "per rank; 0: the cores divided by the ranks");
    p.scaled_decoding = o.flag("scaled-decoding", "decode large JPEGs at a reduced scale");
    p.skip_broken = o.flag("skip-broken", "take the next photograph for one that is broken");
    p.describe = o.flag("describe", "print what would be done, and do nothing");
    o.done();
    if (p.data.empty()) throw error("--data FOLDER is needed; try --help");
    if (p.processes) return train_as_processes(p);
    threads::launch(p.ranks, [&](threads comm) { train(p, comm); });
  });
}
