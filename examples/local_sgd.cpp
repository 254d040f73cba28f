// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo by Local and post-local SGD (Lin et al. 2018): the ranks average their
// weights every so many steps instead of at each, from the start or from the epoch at which the
// learning rate falls; beside the run of one process on the same global batch. A communicator of
// the library's tests counts what rank 0 sends.
#include <cstdio>
#include <string>

#include <cordee/cordee.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data;
  int ranks, batch, every;
  double epochs, warmup, learning_rate, from;
  std::uint64_t seed;
};

template <class Training, class HeldOut>
void train(const plan& p, const char* name, int ranks, int every, double from,
           const Training& training, const HeldOut& held_out) {
  threads::launch(ranks, [&](threads rank) {
    traffic sent;
    const counting_communicator<threads> comm{rank, &sent};
    resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> net;
    const auto norm = normalize::measured(training);
    loader feed{training,
                comm,
                {.global_batch = p.batch, .seed = p.seed},
                pad_crop_flip{.pad = 2, .flip = true},
                norm};
    trainer run{
        net,
        local_steps{sgd{.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true}, every, from},
        warmup{p.warmup, multistep{.learning_rate = p.learning_rate, .milestones = {p.from}}},
        ring{comm},
        {.seed = p.seed}};
    run.fit(feed, p.epochs);
    const traffic training_traffic = sent;  // before the evaluation
    const metrics validated = run.evaluate(held_out, norm);
    if (comm.rank() != 0) return;
    std::printf("%-44s %6s %%   %lld steps, %zu messages, %s MB\n", name,
                decimal::fixed(100 * validated.accuracy(), 2).c_str(),
                static_cast<long long>(feed.steps(p.epochs)), training_traffic.messages,
                decimal::fixed(1e-6 * static_cast<double>(training_traffic.bytes), 1).c_str());
    std::fflush(stdout);
  });
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto run = [&](const std::string& name, int ranks, int every, double from) {
      train(p, name.c_str(), ranks, every, from, training, held_out);
    };
    std::printf(
        "%d ranks, batch %d, %s epochs, the learning rate falls at epoch %s: validation accuracy, "
        "traffic\n",
        p.ranks, p.batch, decimal::general(p.epochs, 6).c_str(),
        decimal::general(p.from, 6).c_str());
    run("one process", 1, 1, 0);
    run("average at each step", p.ranks, 1, 0);
    run(concat("local: every ", p.every, " steps"), p.ranks, p.every, 0);
    run(concat("post-local: every ", p.every, " steps from epoch ", p.from), p.ranks, p.every,
        p.from);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "local_sgd: ResNet-20 on Fashion-MNIST by Local and post-local SGD");
    plan p;
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.positive("ranks", 4, "ranks, one thread (or more, where cores are left) each");
    p.batch = o.positive("batch", 256, "samples of one step, over all ranks");
    p.every = o.positive("every", 8, "steps between two averages");
    p.epochs = o.number("epochs", 8, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 0.1, "learning rate, a tenth of it from --from on");
    p.from = o.number("from", 5, "epoch before which post-local ranks average at each step");
    p.seed = o.seed();
    o.done();
    if (p.every < 1) throw error("--every must be at least 1");
    compare(p);
  });
}
