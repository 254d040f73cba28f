// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on CIFAR-10, on the device that the program was compiled for: small batches by sgd,
// large ones by lars. Everything but the device and its precision follows from the options, so two
// devices can be held to one another: step by step (--csv), or by where they arrive.
// benchmarks/torch_cifar.py is the same recipe in PyTorch.
#include <cstdio>
#include <variant>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

#if defined(__CUDACC__)  // cifar.cu
using device = gpu;
#else
using device = cpu;
#endif

/// CIFAR-10, or a little that needs no files: one type, so that each trainer is compiled once.
class images {
 public:
  images(const std::string& folder, part which)
      : from_(folder == "synthetic" ? any(little(which)) : any(cifar10(folder, which))) {}

  [[nodiscard]] static extent image() { return {3, 32, 32}; }
  [[nodiscard]] static int classes() { return 10; }
  [[nodiscard]] std::size_t size() const {
    return std::visit([](const auto& set) { return set.size(); }, from_);
  }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return std::visit([&](const auto& set) { return set.read(i, pixels); }, from_);
  }

 private:
  using any = std::variant<cifar10, synthetic>;
  static synthetic little(part which) {
    return {.extent = image(), .samples = which == part::train ? 2000u : 500u, .seed = 1};
  }
  any from_;
};

struct plan {
  std::string data, rule, precision, csv;
  int batch;
  double epochs, warmup, rate, trust, decay, smoothing;
  std::uint64_t seed;
};

template <Precision P, class Rule>
void train(const plan& p, const Rule& rule) {
  resnet<20, P, device, shape{.zero_gamma = false}> net;
  net.label_smoothing = p.smoothing;
  const images training(p.data, part::train), held(p.data, part::test);
  const auto norm = normalise::measured(training);
  const solo alone;
  loader feed{training,
              alone.link,
              {.global_batch = p.batch, .seed = p.seed},
              augment{.pad = 4, .flip = true},
              norm};
  trainer run{net,
              rule,
              warmup{p.warmup, polynomial{.peak = p.rate, .epochs = p.epochs, .power = 2}},
              alone,
              {.seed = p.seed}};
  std::printf("%s\n", describe(run, feed, p.epochs).c_str());
  const auto done = p.csv.empty() ? run.fit(feed, p.epochs) : run.fit(feed, p.epochs, csv{p.csv});
  const score last = run.evaluate(held, norm);
  std::printf("held-out accuracy %.2f %% of %lld images; %lld steps in %.1f s\n",
              100 * last.accuracy(), static_cast<long long>(last.count),
              static_cast<long long>(done.steps), done.seconds);
}

template <Precision P>
void train(const plan& p) {
  if (p.rule == "sgd") return train<P>(p, sgd{.momentum = 0.9, .weight_decay = p.decay});
  if (p.rule == "lars")
    return train<P>(p, lars{.momentum = 0.9, .weight_decay = p.decay, .trust = p.trust});
  throw error("--rule takes sgd or lars, not \"" + p.rule + "\"");
}

void train(const plan& p) {
#if defined(__CUDACC__)
  if (p.precision == "fp16") return train<fp16>(p);
  if (p.precision == "bf16") return train<bf16>(p);
#endif
  if (p.precision == "fp32") return train<fp32>(p);
  throw error(text("on ", device::name, " --precision cannot be \"", p.precision, "\""));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "cifar: ResNet-20 on CIFAR-10");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/cifar-10",
                    "folder of the binary files; \"synthetic\" is a small set that needs none");
    p.precision = o.text("precision", "fp32", "fp32; on a GPU also fp16 or bf16");
    p.rule = o.text("rule", "sgd", "sgd or lars");
    p.batch = o.whole("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 30, "passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.rate = o.number("rate", 0.1, "peak rate");
    p.trust = o.number("trust", 0.01, "LARS's trust coefficient");
    p.decay = o.number("decay", 5e-4, "weight decay");
    p.smoothing = o.number("smoothing", 0.1, "label smoothing");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.csv = o.text("csv", "", "write one line a step to this file");
    o.done();
    train(p);
  });
}
