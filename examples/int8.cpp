// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST in FP32, quantised after training (PTQ), and trained in bytes (QAT):
// accuracy, bytes of weights, images a second.
#include <chrono>
#include <cstdio>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

constexpr shape images{.image = {1, 28, 28}, .zero_gamma = false};

struct plan {
  std::string data, save;
  int batch, seeds, calibration;
  double epochs, warmup, rate, trust, freeze;
  std::uint64_t seed;
  bool layers;
};

/// What a network of that precision keeps of its trained numbers: convolutions' weights in its
/// storage, int8 with a scale a filter; the rest in four bytes.
template <Precision P>
std::size_t weight_bytes(std::span<const segment> table) {
  std::size_t bytes = 0;
  for (const segment& s : table) {
    const bool quantised = Quantised<P> && s.shape[2] > 0;  // (K, C, R, S)
    if (s.what == kind::statistic) continue;
    bytes += quantised ? s.size + 4 * static_cast<std::size_t>(s.shape[0]) : 4 * s.size;
  }
  return bytes;
}

struct result {
  double accuracy = 0, images_a_second = 0;
  std::size_t bytes = 0;
};

template <class Run, class Held>
result measured(Run& run, const Held& held, const normalise& norm) {
  using clock = std::chrono::steady_clock;
  result out{.bytes = weight_bytes<typename Run::precision>(run.segments())};
  double seconds = 1e9;
  for (int k = 0; k < 3; ++k) {
    const auto start = clock::now();
    out.accuracy = 100 * run.evaluate(held, norm).accuracy();
    seconds = std::min(seconds, std::chrono::duration<double>(clock::now() - start).count());
  }
  out.images_a_second = static_cast<double>(held.size()) / seconds;
  return out;
}

void print(const char* name, const result& r) {
  std::printf("%-6s %9.2f %% %12zu %12.0f\n", name, r.accuracy, r.bytes, r.images_a_second);
  std::fflush(stdout);
}

/// FP32, PTQ and QAT from one seed.
template <class Training, class Held>
std::array<result, 3> compare(const plan& p, std::uint64_t seed, const Training& training,
                              const Held& held, const normalise& norm) {
  const auto feed_for = [&] {
    return loader{training,
                  alone{},
                  {.global_batch = p.batch, .seed = seed},
                  augment{.pad = 2, .flip = true},
                  norm};
  };
  const auto run_of = [&](auto& net) {
    return trainer{net,
                   lars{.momentum = 0.9, .weight_decay = 5e-4, .trust = p.trust},
                   warmup{p.warmup, polynomial{.peak = p.rate, .epochs = p.epochs, .power = 2}},
                   solo{},
                   {.seed = seed}};
  };
  std::array<result, 3> out;
  {
    resnet<20, fp32, cpu, images> net;
    auto run = run_of(net);
    auto feed = feed_for();
    run.fit(feed, p.epochs);
    out[0] = measured(run, held, norm);
    run.save(p.save);
    print("FP32", out[0]);
  }
  {
    resnet<20, int8, cpu, images> net;
    auto run = run_of(net);
    run.load(p.save);
    loader feed{training, alone{}, {.global_batch = p.batch, .seed = seed}, {}, norm};
    const auto report = calibrate(run, feed, p.calibration);
    if (p.layers)
      for (const calibrated_layer& l : report)
        std::printf("  %-16s [%7.3f, %7.3f]  error %5.2f %%  saturated %.4f %%\n", l.name.c_str(),
                    l.low, l.high, 100 * l.error, 100 * l.saturation);
    out[1] = measured(run, held, norm);
    print("PTQ", out[1]);
  }
  {
    resnet<20, int8, cpu, images> net;
    net.quantisation.freeze_ranges_at = p.freeze * p.epochs;
    auto run = run_of(net);
    auto feed = feed_for();
    run.fit(feed, p.epochs);
    out[2] = measured(run, held, norm);
    print("QAT", out[2]);
  }
  return out;
}

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    const auto norm = normalise::measured(training);
    std::array<result, 3> mean{};
    for (int k = 0; k < p.seeds; ++k) {
      std::printf("seed %llu     accuracy weight bytes     images/s\n",
                  static_cast<unsigned long long>(p.seed) + static_cast<unsigned>(k));
      const auto one = compare(p, p.seed + static_cast<unsigned>(k), training, held, norm);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i].accuracy += one[i].accuracy / p.seeds;
        mean[i].images_a_second += one[i].images_a_second / p.seeds;
        mean[i].bytes = one[i].bytes;
      }
    }
    std::printf("mean of %d seed%s\n", p.seeds, p.seeds == 1 ? "" : "s");
    print("FP32", mean[0]);
    print("PTQ", mean[1]);
    print("QAT", mean[2]);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "int8: ResNet-20 on Fashion-MNIST in FP32, PTQ and QAT");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    p.batch = o.whole("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 8, "passes over the training images");
    p.warmup = o.number("warmup", 0.5, "epochs of warm-up from zero");
    p.rate = o.number("rate", 1, "peak rate");
    p.trust = o.number("trust", 0.01, "LARS's trust coefficient");
    p.freeze = o.number("freeze", 0.67, "share of the epochs after which ranges stay");
    p.calibration = o.whole("calibration", 10, "batches that PTQ looks at");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.seeds = o.whole("seeds", 1, "how many seeds, from that one on");
    p.save = o.text("save", "int8-example.safetensors", "FP32's weights go through this file");
    p.layers = o.flag("layers", "PTQ's report, layer by layer");
    o.done();
    train(p);
  });
}
