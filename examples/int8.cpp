// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST in FP32, quantised to int8 after training (PTQ), trained with
// quantisation (QAT), on integers alone, and trained with weights of 4 bits, which are simulated:
// accuracy, bytes of weights, images a second, time of one image.
//
// QAT and 4 bits begin with FP32's weights before its last epochs, and train these in their
// precision: as many updates as FP32.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/quantize_network.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

constexpr resnet_options images{.image = {1, 28, 28}, .zero_gamma = false};

struct plan {
  std::string data, save;
  int batch, seeds, calibration, evaluations;
  double epochs, tune, warmup, learning_rate, trust_coefficient, freeze;
  std::uint64_t seed;
  bool layers;
};

/// Bytes of the trained parameters in that precision: convolutions' weights in its bits with a scale
/// per filter where P is quantised, the rest in four bytes.
template <Precision P>
std::size_t weight_bytes(std::span<const segment> table) {
  std::size_t bytes = 0;
  for (const segment& s : table) {
    if (s.kind == kind::statistic) continue;
    bytes += 4 * s.size;
    if constexpr (Quantized<P>)
      if (s.shape[2] > 0)  // (K, C, R, S)
        bytes -= 4 * s.size - s.size * detail::precision::weight_bits<P> / 8 -
                 4 * static_cast<std::size_t>(s.shape[0]);
  }
  return bytes;
}
/// Bytes of weights, biases, multipliers and shifts.
std::size_t weight_bytes(const integer_network& net) {
  std::size_t bytes = 0;
  const auto add = [&](const auto& layer) {
    bytes += layer.weights.size() + layer.bias.size() * (sizeof layer.bias[0] + 4 + 1);
  };
  for (const auto& step : net.program().steps) {
    if (const auto* c = std::get_if<detail::infer::integer_convolution>(&step.layer)) add(*c);
    if (const auto* c = std::get_if<detail::infer::integer_classifier>(&step.layer)) add(*c);
  }
  return bytes;
}

/// All images of a data set in memory.
struct test_images {
  std::vector<std::uint8_t> pixels;
  std::vector<int> labels;
  static constexpr std::size_t size = images.image.size();

  explicit test_images(const auto& data) : pixels(data.size() * size) {
    for (std::size_t i = 0; i < data.size(); ++i)
      labels.push_back(data.read(i, std::span(pixels).subspan(i * size, size)));
  }
  std::span<const std::uint8_t> first(std::size_t n) const {
    return std::span(pixels).first(std::min(n, labels.size()) * size);
  }
};

struct result {
  const char* name = "";
  double accuracy = 0, bytes = 0, images_a_second = 0, latency = 0;
  double equal = NAN;  // share of predictions that are those of simulated inference
  std::vector<int> predictions{};
};

template <class T>
std::vector<int> largest(const std::vector<T>& scores, std::size_t classes) {
  std::vector<int> out;
  for (auto at = scores.begin(); at != scores.end(); at += static_cast<std::ptrdiff_t>(classes))
    out.push_back(
        static_cast<int>(std::max_element(at, at + static_cast<std::ptrdiff_t>(classes)) - at));
  return out;
}

/// predict(images, size of a batch) -> predictions.
template <class Predict>
result measured(const char* name, const plan& p, std::size_t bytes, const test_images& test,
                const Predict& predict) {
  const auto seconds_of = [](const auto& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  result out{.name = name, .bytes = static_cast<double>(bytes)};
  double all = 1e9, one = 1e9;
  constexpr std::size_t alone = 200;  // images of batches of one
  for (int k = 0; k < p.evaluations; ++k) {
    all = std::min(all, seconds_of([&] { out.predictions = predict(test.first(-1ULL), 250); }));
    one = std::min(one, seconds_of([&] { predict(test.first(alone), 1); }));
  }
  std::size_t correct = 0;
  for (std::size_t i = 0; i < test.labels.size(); ++i)
    correct += out.predictions[i] == test.labels[i] ? 1 : 0;
  const auto count = static_cast<double>(test.labels.size());
  out.accuracy = 100 * static_cast<double>(correct) / count;
  out.images_a_second = count / all;
  out.latency = 1e6 * one / static_cast<double>(std::min(alone, test.labels.size()));
  return out;
}
template <class Run>
result measured(const char* name, const plan& p, Run& run, const test_images& test,
                const normalization& norm) {
  return measured(name, p, weight_bytes<typename Run::precision>(run.segments()), test,
                  [&](std::span<const std::uint8_t> pixels, int batch) {
                    return largest(predict(run, pixels, norm, batch), Run::model_type::classes);
                  });
}
result measured(const char* name, const plan& p, integer_network net, const test_images& test,
                const result& simulated) {
  result out = measured(
      name, p, weight_bytes(net), test, [&](std::span<const std::uint8_t> pixels, int batch) {
        std::vector<std::int32_t> logits(pixels.size() / test_images::size * net.classes());
        const std::size_t each = static_cast<std::size_t>(batch),
                          samples = pixels.size() / test_images::size;
        for (std::size_t n = 0; n < samples; n += each) {
          const std::size_t count = std::min(each, samples - n);
          net.run(pixels.subspan(n * test_images::size, count * test_images::size),
                  std::span(logits).subspan(n * net.classes(), count * net.classes()));
        }
        return largest(logits, net.classes());
      });
  std::size_t equal = 0;
  for (std::size_t i = 0; i < out.predictions.size(); ++i)
    equal += out.predictions[i] == simulated.predictions[i] ? 1 : 0;
  out.equal = 100 * static_cast<double>(equal) / static_cast<double>(out.predictions.size());
  return out;
}

void print(const result& r, double fp32_bytes) {
  std::printf("%-18s %7.2f %% %10.0f %6.2f %10.0f %10.0f", r.name, r.accuracy, r.bytes,
              fp32_bytes / r.bytes, r.images_a_second, r.latency);
  if (!std::isnan(r.equal)) std::printf(" %9.2f %%", r.equal);
  std::printf("\n");
  std::fflush(stdout);
}
constexpr const char* heading =
    "                    accuracy      bytes  fewer   images/s us an image as simulated\n";

/// The rows of the table of one seed.
template <class Training>
std::vector<result> compare(const plan& p, std::uint64_t seed, const Training& training,
                            const test_images& test, const normalize& norm) {
  const auto schedule =
      warmup{p.warmup, polynomial{.peak = p.learning_rate, .epochs = p.epochs, .power = 2}};
  const double before = p.epochs - p.tune;  // epochs that FP32 alone trains
  const auto feed_of = [&](std::uint64_t order) {
    return loader{training,
                  self_comm{},
                  {.global_batch = p.batch, .seed = order},
                  pad_crop_flip{.pad = 2, .flip = true},
                  norm};
  };
  const auto run_of = [&](auto& net, double from) {
    return trainer{
        net,
        lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = p.trust_coefficient},
        [=](double epoch) { return schedule(from + epoch); },
        solo{},
        {.seed = seed}};
  };
  std::vector<result> rows;
  const auto add = [&](result r) {
    rows.push_back(std::move(r));
    print(rows.back(), rows.front().bytes);
  };
  const auto calibration = [&] {
    return loader{training, self_comm{}, {.global_batch = p.batch, .seed = seed}, {}, norm};
  };
  resnet<20, fp32, cpu, images> net;
  auto run = run_of(net, 0);
  {
    auto feed = feed_of(seed);
    run.fit(feed, before);
    run.save(p.save);
    run.fit(feed, p.epochs);
    add(measured("FP32", p, run, test, norm));
  }
  const auto copy_in = [&](auto& other) {
    for (const segment& to : other.segments())
      for (const segment& from : run.segments())
        if (from.name == to.name)
          std::copy_n(run.weights().data + from.offset, from.size,
                      other.weights().data + to.offset);
    other.adopt_weights();
  };
  {
    resnet<20, int8, cpu, images> quantized;
    auto calibrated = run_of(quantized, 0);
    copy_in(calibrated);
    auto feed = calibration();
    const auto report = calibrate(calibrated, feed, p.calibration);
    if (p.layers)
      for (const calibrated_layer& l : report)
        std::printf("  %-16s [%7.3f, %7.3f]  error %5.2f %%  saturated %.4f %%\n", l.name.c_str(),
                    l.low, l.high, 100 * l.error, 100 * l.saturation);
    add(measured("PTQ", p, calibrated, test, norm));
    auto again = calibration();
    add(measured("PTQ, integers", p, quantize_network(run, again, p.calibration), test,
                 result(rows.back())));
  }
  const auto tuned = [&](auto& quantized, const char* name) {
    quantized.quantization.freeze_ranges_at = p.freeze * p.tune;
    auto trained = run_of(quantized, before);
    trained.load(p.save);
    auto feed = feed_of(seed + 1000);
    trained.fit(feed, p.tune);
    add(measured(name, p, trained, test, norm));
    return trained.with_mean_model([&] {
      if constexpr (detail::precision::weight_bits<typename decltype(trained)::precision> == 8)
        add(measured("QAT, integers", p,
                     integer_network::from<typename decltype(trained)::model_type>(
                         trained.weights(), feed.norm()),
                     test, result(rows.back())));
      return 0;
    });
  };
  resnet<20, int8, cpu, images> quantized;
  tuned(quantized, "QAT");
  resnet<20, low_bit_weights<4>, cpu, images> four_bits;
  tuned(four_bits, "4-bit (simulated)");
  return rows;
}

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto norm = normalize::measured(training);
    const test_images test(held_out);
    std::vector<std::vector<result>> seeds;
    for (int k = 0; k < p.seeds; ++k) {
      std::printf("seed %llu\n%s",
                  static_cast<unsigned long long>(p.seed) + static_cast<unsigned>(k), heading);
      seeds.push_back(compare(p, p.seed + static_cast<unsigned>(k), training, test, norm));
    }
    if (p.seeds == 1) return;
    std::printf("mean of %d seeds, and the least and greatest accuracy minus FP32's\n%s", p.seeds,
                heading);
    for (std::size_t i = 0; i < seeds[0].size(); ++i) {
      result mean{.name = seeds[0][i].name, .equal = 0};
      double least = 100, greatest = -100;
      for (const auto& rows : seeds) {
        mean.accuracy += rows[i].accuracy / p.seeds;
        mean.bytes += rows[i].bytes / p.seeds;
        mean.images_a_second += rows[i].images_a_second / p.seeds;
        mean.latency += rows[i].latency / p.seeds;
        mean.equal += rows[i].equal / p.seeds;
        least = std::min(least, rows[i].accuracy - rows[0].accuracy);
        greatest = std::max(greatest, rows[i].accuracy - rows[0].accuracy);
      }
      print(mean, seeds[0][0].bytes);
      std::printf("%18s %+7.2f .. %+.2f\n", "", least, greatest);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "int8: ResNet-20 on Fashion-MNIST in FP32, PTQ, QAT, integers, 4 bits");
    plan p;
    p.data = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    p.batch = o.positive("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 8, "epochs, passes over the training images");
    p.tune = o.number("tune", 2, "last epochs that QAT and 4 bits train in their precision");
    p.warmup = o.number("warmup", 0.5, "epochs of warm-up from zero");
    p.learning_rate = o.number("rate", 1, "peak learning rate");
    p.trust_coefficient = o.number("trust", 0.01, "LARS's trust coefficient");
    p.freeze = o.number("freeze", 0.67, "share of the last epochs after which ranges are frozen");
    p.calibration = o.whole("calibration", 10, "batches that PTQ calibrates on");
    p.evaluations = o.positive("evaluations", 3, "evaluations, of which the fastest is timed");
    p.seed = o.seed();
    p.seeds = o.positive("seeds", 1, "number of seeds, from --seed on");
    p.save =
        o.string("save", "int8-example.safetensors", "file for the FP32 weights, which QAT loads");
    p.layers = o.flag("layers", "print PTQ's report, layer by layer");
    o.done();
    if (!(p.tune > 0 && p.tune < p.epochs))
      throw error("--tune is more than 0 epochs and less than --epochs");
    train(p);
  });
}
