// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST in FP32, quantised to int8 after training (PTQ), and trained with
// quantisation (QAT): accuracy, bytes of weights, images a second.
#include <chrono>
#include <cstdio>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

constexpr resnet_options images{.image = {1, 28, 28}, .zero_gamma = false};

struct plan {
  std::string data, save;
  int batch, seeds, calibration, evaluations;
  double epochs, warmup, learning_rate, trust_coefficient, freeze;
  std::uint64_t seed;
  bool layers;
};

/// Bytes of the trained parameters in that precision: convolutions' weights as int8 with a scale
/// per filter where P is quantised, the rest in four bytes.
template <Precision P>
std::size_t weight_bytes(std::span<const segment> table) {
  std::size_t bytes = 0;
  for (const segment& s : table) {
    const bool quantized = Quantized<P> && s.shape[2] > 0;  // (K, C, R, S)
    if (s.kind == kind::statistic) continue;
    bytes += quantized ? s.size + 4 * static_cast<std::size_t>(s.shape[0]) : 4 * s.size;
  }
  return bytes;
}

struct result {
  double accuracy = 0, images_a_second = 0;
  std::size_t bytes = 0;
};

template <class Run, class HeldOut>
result measured(const plan& p, Run& run, const HeldOut& held_out, const normalize& norm) {
  using clock = std::chrono::steady_clock;
  result out{.bytes = weight_bytes<typename Run::precision>(run.segments())};
  double seconds = 1e9;
  for (int k = 0; k < p.evaluations; ++k) {
    const auto start = clock::now();
    out.accuracy = 100 * run.evaluate(held_out, norm).accuracy();
    seconds = std::min(seconds, std::chrono::duration<double>(clock::now() - start).count());
  }
  out.images_a_second = static_cast<double>(held_out.size()) / seconds;
  return out;
}

void print(const char* name, const result& r) {
  std::printf("%-6s %9.2f %% %12zu %12.0f\n", name, r.accuracy, r.bytes, r.images_a_second);
  std::fflush(stdout);
}

/// FP32, PTQ and QAT from one seed.
template <class Training, class HeldOut>
std::array<result, 3> compare(const plan& p, std::uint64_t seed, const Training& training,
                              const HeldOut& held_out, const normalize& norm) {
  const auto feed_for = [&] {
    return loader{training,
                  self_comm{},
                  {.global_batch = p.batch, .seed = seed},
                  pad_crop_flip{.pad = 2, .flip = true},
                  norm};
  };
  const auto run_of = [&](auto& net) {
    return trainer{
        net,
        lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = p.trust_coefficient},
        warmup{p.warmup, polynomial{.peak = p.learning_rate, .epochs = p.epochs, .power = 2}},
        solo{},
        {.seed = seed}};
  };
  std::array<result, 3> out;
  {
    resnet<20, fp32, cpu, images> net;
    auto run = run_of(net);
    auto feed = feed_for();
    run.fit(feed, p.epochs);
    out[0] = measured(p, run, held_out, norm);
    run.save(p.save);
    print("FP32", out[0]);
  }
  {
    resnet<20, int8, cpu, images> net;
    auto run = run_of(net);
    run.load(p.save);
    loader feed{training, self_comm{}, {.global_batch = p.batch, .seed = seed}, {}, norm};
    const auto report = calibrate(run, feed, p.calibration);
    if (p.layers)
      for (const calibrated_layer& l : report)
        std::printf("  %-16s [%7.3f, %7.3f]  error %5.2f %%  saturated %.4f %%\n", l.name.c_str(),
                    l.low, l.high, 100 * l.error, 100 * l.saturation);
    out[1] = measured(p, run, held_out, norm);
    print("PTQ", out[1]);
  }
  {
    resnet<20, int8, cpu, images> net;
    net.quantization.freeze_ranges_at = p.freeze * p.epochs;
    auto run = run_of(net);
    auto feed = feed_for();
    run.fit(feed, p.epochs);
    out[2] = measured(p, run, held_out, norm);
    print("QAT", out[2]);
  }
  return out;
}

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto norm = normalize::measured(training);
    std::array<result, 3> mean{};
    for (int k = 0; k < p.seeds; ++k) {
      std::printf("seed %llu     accuracy weight bytes     images/s\n",
                  static_cast<unsigned long long>(p.seed) + static_cast<unsigned>(k));
      const auto results = compare(p, p.seed + static_cast<unsigned>(k), training, held_out, norm);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i].accuracy += results[i].accuracy / p.seeds;
        mean[i].images_a_second += results[i].images_a_second / p.seeds;
        mean[i].bytes = results[i].bytes;
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
    p.data = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    p.batch = o.positive("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 8, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 0.5, "epochs of warm-up from zero");
    p.learning_rate = o.number("rate", 1, "peak learning rate");
    p.trust_coefficient = o.number("trust", 0.01, "LARS's trust coefficient");
    p.freeze = o.number("freeze", 0.67, "share of the epochs after which ranges are frozen");
    p.calibration = o.whole("calibration", 10, "batches that PTQ calibrates on");
    p.evaluations = o.positive("evaluations", 3, "evaluations, of which the fastest is timed");
    p.seed = o.seed();
    p.seeds = o.positive("seeds", 1, "number of seeds, from --seed on");
    p.save =
        o.string("save", "int8-example.safetensors", "file for the FP32 weights, which PTQ loads");
    p.layers = o.flag("layers", "print PTQ's report, layer by layer");
    o.done();
    train(p);
  });
}
