// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo over processes, on the machines given to mpirun or srun; then the same
// run as threads of one process, which must end with the same weights.
//
//   examples/launch/mpirun.sh 4 build/demo/examples/many_machines --epochs 2
//   sbatch examples/launch/slurm.sbatch build/demo/examples/many_machines
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cordee/comm/mpi.hpp>
#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data;
  int batch, deadline;
  double epochs, warmup, learning_rate;
  std::uint64_t seed;
  bool only_processes;
};

struct result {
  double accuracy = 0;
  std::vector<float> weights;
};

template <class Communicator, class Training, class HeldOut, class... Callbacks>
result train(const plan& p, const Communicator& comm, const Training& training,
             const HeldOut& held_out, Callbacks&&... callbacks) {
  resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> net;
  loader feed{training,
              comm,
              {.global_batch = p.batch, .seed = p.seed},
              pad_crop_flip{.pad = 2, .flip = true},
              normalize::measured(training)};
  trainer run{net,
              lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = 0.01},
              warmup{p.warmup, polynomial{.peak = p.learning_rate, .epochs = p.epochs, .power = 2}},
              ring{comm},
              {.bucket_bytes = 1 << 20, .seed = p.seed}};  // its default depends on the transport
  const auto done = run.fit(feed, p.epochs, validation{held_out}, callbacks...);
  return {100 * done.last.validation->accuracy(), {run.weights().begin(), run.weights().end()}};
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    mpi::launch(
        [&](mpi comm) {
          const result processes = train(p, comm, training, held_out, console{});
          if (comm.rank() != 0) return;
          std::printf("%d processes: validation accuracy %s %%\n", comm.size(),
                      decimal::fixed(processes.accuracy, 2).c_str());
          std::fflush(stdout);
          if (p.only_processes) return;
          result one_process;
          threads::launch(comm.size(), [&](threads thread) {
            const result of_rank = train(p, thread, training, held_out);
            if (thread.rank() == 0) one_process = of_rank;
          });
          std::printf("one process:  validation accuracy %s %%, the weights %s\n",
                      decimal::fixed(one_process.accuracy, 2).c_str(),
                      std::ranges::equal(processes.weights, one_process.weights)
                          ? "are the same bits"
                          : "differ");
        },
        {.deadline = std::chrono::seconds(p.deadline)});
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "many_machines: ResNet-20 on Fashion-MNIST with ranks as processes, which "
                        "mpirun or srun starts");
    plan p;
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.batch = o.positive("batch", 512, "samples of one update, over all ranks");
    p.epochs = o.number("epochs", 12, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 1, "peak learning rate");
    p.seed = o.seed();
    p.deadline =
        o.positive("deadline", 120, "seconds after which a rank that waits for another gives up");
    p.only_processes = o.flag("only-processes", "skip the run in one process");
    o.done();
    compare(p);
  });
}
