// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on CIFAR-10, on the device that the program was compiled for: small batches by sgd,
// large ones by lars. Everything but the device and its precision follows from the options, so two
// devices can be compared: step by step (--csv), or by the final accuracy.
// benchmarks/torch_cifar.py is the same recipe in PyTorch.
#include <cstdio>

#include <cordee/cordee.hpp>

#include "cifar_images.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

#if defined(__CUDACC__)  // cifar.cu
using device = gpu;
#else
using device = cpu;
#endif

struct plan {
  std::string data, optimizer, precision, csv;
  int batch;
  double epochs, warmup, learning_rate, trust_coefficient, decay, smoothing;
  std::uint64_t seed;
};

template <Precision P, class Optimizer>
void train(const plan& p, const Optimizer& optimizer) {
  resnet<20, P, device, resnet_options{.zero_gamma = false}> net;
  net.loss.label_smoothing = p.smoothing;
  const examples::cifar_images training(p.data, cifar10::train, 2000),
      held_out(p.data, cifar10::test, 500);
  const auto norm = normalize::measured(training);
  const solo self_comm;
  loader feed{training,
              self_comm.comm,
              {.global_batch = p.batch, .seed = p.seed},
              pad_crop_flip{.pad = 4, .flip = true},
              norm};
  trainer run{net,
              optimizer,
              warmup{p.warmup, polynomial{.peak = p.learning_rate, .epochs = p.epochs, .power = 2}},
              self_comm,
              {.seed = p.seed}};
  std::printf("%s\n", describe(run, feed, p.epochs).c_str());
  const auto done = p.csv.empty() ? run.fit(feed, p.epochs) : run.fit(feed, p.epochs, csv{p.csv});
  const metrics last = run.evaluate(held_out, norm);
  std::printf("validation accuracy %s %% of %lld images; %lld steps in %s s\n",
              decimal::fixed(100 * last.accuracy(), 2).c_str(), static_cast<long long>(last.count),
              static_cast<long long>(done.steps), decimal::fixed(done.seconds, 1).c_str());
}

template <Precision P>
void train(const plan& p) {
  if (p.optimizer == "sgd") return train<P>(p, sgd{.momentum = 0.9, .weight_decay = p.decay});
  if (p.optimizer == "lars")
    return train<P>(
        p,
        lars{.momentum = 0.9, .weight_decay = p.decay, .trust_coefficient = p.trust_coefficient});
  throw error("--optimizer takes sgd or lars, not \"" + p.optimizer + "\"");
}

void train(const plan& p) {
#if defined(__CUDACC__)
  if (p.precision == "fp16") return train<fp16>(p);
  if (p.precision == "bf16") return train<bf16>(p);
#endif
  if (p.precision == "fp32") return train<fp32>(p);
  throw error(concat("on ", device::name, " --precision cannot be \"", p.precision, "\""));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "cifar: ResNet-20 on CIFAR-10");
    plan p;
    p.data = o.string("data", CORDEE_EXAMPLE_DATA "/cifar-10",
                      "folder of the binary files; \"synthetic\" is a small set that needs none");
    p.precision = o.string("precision", "fp32", "fp32; on a GPU also fp16 or bf16");
    p.optimizer = o.string("optimizer", "sgd", "sgd or lars");
    p.batch = o.positive("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 30, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 0.1, "peak learning rate");
    p.trust_coefficient = o.number("trust", 0.01, "LARS's trust coefficient");
    p.decay = o.number("decay", 5e-4, "weight decay");
    p.smoothing = o.number("smoothing", 0.1, "label smoothing");
    p.seed = o.seed();
    p.csv = o.string("csv", "", "write one line per step to this file");
    o.done();
    train(p);
  });
}
