// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST in FP32, quantised to int8 after training (PTQ), trained with
// quantisation (QAT), on integers alone with batch norms folded and not, and trained with weights
// of 4 and 2 bits. Columns: accuracy on the test images, the same minus FP32's in points, bytes of
// weights, how many times fewer than FP32's, images a second in batches of 250, microseconds of one
// image alone, and of integers the share of predictions that are those of the simulated network.
//
// "PTQ, corrected" has equalized layers, ranges of the least mean squared error and corrected
// biases, on integers.
//
// QAT, 4 and 2 bits begin with FP32's weights before its last epochs, and train these in their
// precision: as many updates as FP32.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/quantize_network.hpp>

#include "data.hpp"
#include "int8_table.hpp"
#include "options.hpp"

using namespace cordee;
using namespace examples;

namespace {

struct plan {
  std::string data, save;
  int batch, seeds, calibration, evaluations;
  double epochs, tune, warmup, learning_rate, trust_coefficient, freeze;
  std::uint64_t seed;
  bool layers, resume;
};

/// The rows of the table of one seed. `few` of the test images say what each layer costs.
template <class Training, class Few>
std::vector<result> compare(const plan& p, std::uint64_t seed, const Training& training,
                            const test_images& test, const Few& few, const normalize& norm) {
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
    print(rows.back(), rows.front());
  };
  const auto calibration = [&] {
    return loader{training, self_comm{}, {.global_batch = p.batch, .seed = seed}, {}, norm};
  };
  resnet<20, fp32, cpu, images> net;
  auto run = run_of(net, 0);
  const auto file = [&](const char* network) {
    return concat(p.save, "/seed", seed, "-", network, ".safetensors");
  };
  const auto has = [&](const char* network) {
    return p.resume && std::filesystem::exists(file(network));
  };
  if (has("fp32")) {
    run.load(file("fp32"));
  } else {
    auto feed = feed_of(seed);
    run.fit(feed, before);
    run.save(file("before"));
    run.fit(feed, p.epochs);
    run.save(file("fp32"));
  }
  add(measured("FP32", p.evaluations, run, test, norm));
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
    auto feed = calibration(), second = calibration(), third = calibration();
    calibrate(calibrated, feed, p.calibration);
    add(measured("PTQ", p.evaluations, calibrated, test, norm));
    add(measured("PTQ, integers", p.evaluations, quantize_network(run, second, p.calibration), test,
                 result(rows.back())));
    const quantize_network_options corrections{
        .range = mean_squared_error_range{}, .equalize_layers = true, .correct_bias = true};
    const auto corrected_network = [&] {
      if (!p.layers) return quantize_network(run, third, p.calibration, corrections);
      auto [integers, report] = quantize_network(run, third, p.calibration, corrections, few);
      std::printf("PTQ, corrected, on %zu of the test images: %s", few.size(),
                  describe(report).c_str());
      return std::move(integers);
    };
    result corrected =
        measured("PTQ, corrected", p.evaluations, corrected_network(), test, rows.back());
    corrected.equal = NAN;  // its range choices are not those of "PTQ"
    add(std::move(corrected));
  }
  // On integers with batch norms that are not folded: or null.
  struct row_names {
    const char *simulated, *integers, *with_norms;
  };
  const auto tuned = [&](auto& quantized, const char* network, const row_names& names) {
    quantized.quantization.freeze_ranges_at = p.freeze * p.tune;
    auto trained = run_of(quantized, before);
    trained.load(file(has(network) ? network : "before"));
    if (!has(network)) {
      auto feed = feed_of(seed + 1000);
      trained.fit(feed, p.tune);
      trained.save(file(network));
    }
    add(measured(names.simulated, p.evaluations, trained, test, norm));
    const result simulated = rows.back();
    const auto on_integers = [&](const char* name, bool fold) {
      if (name == nullptr) return;
      auto integers = trained.with_mean_model([&] {
        return integer_network::from<typename decltype(trained)::model_type>(
            trained.weights(), norm, cpu(), {.fold_batch_norm = fold});
      });
      add(measured(name, p.evaluations, std::move(integers), test, simulated));
    };
    on_integers(names.integers, true);
    on_integers(names.with_norms, false);
  };
  resnet<20, int8, cpu, images> quantized;
  tuned(quantized, "int8", {"QAT", "QAT, integers", "QAT, own norms"});
  resnet<20, low_bit_weights<4>, cpu, images> four_bits;
  tuned(four_bits, "4-bit", {"4-bit (simulated)", "4-bit, integers", nullptr});
  resnet<20, low_bit_weights<2>, cpu, images> two_bits;
  tuned(two_bits, "2-bit", {"2-bit (simulated)", "2-bit, integers", nullptr});
  return rows;
}

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto norm = normalize::measured(training);
    const test_images test(held_out);
    const auto few = split(held_out, 0.1, 1).validation;
    std::vector<std::vector<result>> seeds;
    for (int k = 0; k < p.seeds; ++k) {
      std::printf("seed %llu\n%s",
                  static_cast<unsigned long long>(p.seed) + static_cast<unsigned>(k), heading);
      seeds.push_back(compare(p, p.seed + static_cast<unsigned>(k), training, test, few, norm));
    }
    if (p.seeds == 1) return;
    std::printf("mean of %d seeds, and the least and greatest accuracy minus FP32's\n%s", p.seeds,
                heading);
    result fp32;
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
      if (i == 0) fp32 = mean;
      print(mean, fp32);
      std::printf("%18s %7s .. %s\n", "", decimal::with_sign(decimal::fixed(least, 2)).c_str(),
                  decimal::with_sign(decimal::fixed(greatest, 2)).c_str());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(
        argc, argv, "int8: ResNet-20 on Fashion-MNIST in FP32, PTQ, QAT, integers, 4 and 2 bits");
    plan p;
    p.data = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    p.batch = o.positive("batch", 128, "samples of one update");
    p.epochs = o.number("epochs", 8, "epochs, passes over the training images");
    p.tune = o.number("tune", 2, "last epochs that QAT, 4 and 2 bits train in their precision");
    p.warmup = o.number("warmup", 0.5, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 1, "peak learning rate");
    p.trust_coefficient = o.number("trust", 0.01, "LARS's trust coefficient");
    p.freeze = o.number("freeze", 0.67, "share of the last epochs after which ranges are frozen");
    p.calibration = o.positive("calibration", 10, "batches that PTQ calibrates on");
    p.evaluations = o.positive("evaluations", 3, "evaluations, of which the fastest is timed");
    p.seed = o.seed();
    p.seeds = o.positive("seeds", 1, "number of seeds, from --seed on");
    p.save = o.string("save", "int8-example", "folder for the trained networks");
    p.resume = o.flag("resume", "do not train networks that the folder has: of the same options");
    p.layers = o.flag("layers", "print what each layer costs, of \"PTQ, corrected\"");
    o.done();
    if (!(p.tune > 0 && p.tune < p.epochs))
      throw error("--tune is more than 0 epochs and less than --epochs");
    std::filesystem::create_directories(p.save);
    train(p);
  });
}
