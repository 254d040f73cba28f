// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The angle between the gradients grad L(w_t) and grad L(w_{t+j}) of a sample of the training set,
// early and late in a run. That both are nearly equal for j < k is what makes k steps of a batch
// one step of a batch k times as large with k times the learning rate; that they are not where the
// weights change rapidly, early in a run, is the reason for warm-up (Goyal et al., 2017).
//
//   angle(t, j) = acos(g_t . g_{t+j} / (|g_t| |g_{t+j}|)),   change(t, j) = |g_{t+j} - g_t| / |g_t|
//
// SGD with momentum 0.9, a constant learning rate, no warm-up. Passes if the median over the seeds
// of angle(t, 8) from the first update on is larger than from the last 64 updates on, and the
// median of change(t, 8) too.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/decimal.hpp>

#include "benchmarks/science/hessian.hpp"
#include "benchmarks/science/results.hpp"
#include "benchmarks/science/small_cnn.hpp"
#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

constexpr extent image{1, 28, 28};
using net_type = science::small_cnn<image>;
using exact_net = science::small_cnn<image, fp64>;
constexpr int farthest = 64;

struct plan {
  int batch, updates, sample;
  double rate;
};

/// Gradients at w_t and w_{t+1}, w_{t+2}, w_{t+4} … for each t of `starts`.
template <class Training, class Sample>
std::map<int, science::vector> gradients(const Training& data, const normalize& norm,
                                         Sample& sample, const plan& p,
                                         const std::vector<int>& starts, std::uint64_t seed) {
  net_type net;
  loader feed{data, self_comm{}, {.global_batch = p.batch, .seed = seed}, pad_crop_flip{}, norm};
  trainer run{net, sgd{.momentum = 0.9}, constant{p.rate}, solo{}, {.seed = seed}};
  std::map<int, science::vector> result;
  for (int t = 0; t <= p.updates; ++t) {
    const bool is_wanted = std::any_of(starts.begin(), starts.end(), [&](int start) {
      const int j = t - start;
      return j == 0 || (j > 0 && j <= farthest && (j & (j - 1)) == 0);
    });
    if (is_wanted) {
      const auto w = run.weights();
      result[t] = sample.gradient(science::vector(w.begin(), w.end()));
    }
    run.step(feed.next(), feed.epoch(t));
  }
  return result;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class Training>
void measure(const Training& data, science::results& table, const plan& p, int seeds) {
  const auto norm = normalize::measured(data);
  loader feed{data, self_comm{}, {.global_batch = 256, .seed = 99}, pad_crop_flip{}, norm};
  science::sample_loss<exact_net, decltype(feed)> sample(feed, p.sample / 256);
  const std::vector<int> starts{0, farthest, p.updates / 10, p.updates / 2, p.updates - farthest};
  std::map<std::pair<int, int>, std::vector<double>> angles, changes;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::optional<std::map<int, science::vector>> run;
    const auto at = [&](int t) -> const science::vector& {
      if (!run) run = gradients(data, norm, sample, p, starts, static_cast<std::uint64_t>(seed));
      return run->at(t);
    };
    for (const int t : starts)
      for (int j = 1; j <= farthest; j *= 2) {
        const std::string key = concat(p.batch, ",", p.rate, ",", seed, ",", t, ",", j, ",");
        angles[{t, j}].push_back(table(key + "angle", [&] {
          const double cosine =
              science::dot(at(t), at(t + j)) / (science::norm(at(t)) * science::norm(at(t + j)));
          return std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / std::numbers::pi;
        }));
        changes[{t, j}].push_back(table(key + "change", [&] {
          return science::norm(science::sum_of(at(t + j), -1, at(t))) / science::norm(at(t));
        }));
      }
  }
  for (const auto& [where, values] : angles)
    std::printf("t = %d, j = %d: angle %s degrees (%s to %s), change %s\n", where.first,
                where.second, decimal::fixed(median(values), 1).c_str(),
                decimal::fixed(*std::min_element(values.begin(), values.end()), 1).c_str(),
                decimal::fixed(*std::max_element(values.begin(), values.end()), 1).c_str(),
                decimal::fixed(median(changes[where]), 2).c_str());
  const std::pair early{starts.front(), 8}, late{starts.back(), 8};
  std::printf("passes: %s\n", median(angles[early]) > median(angles[late]) &&
                                      median(changes[early]) > median(changes[late])
                                  ? "yes"
                                  : "no");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "angles: between gradients some updates apart, early and late");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    const std::string out = o.string("out", "angles.csv", "a line for each number");
    plan p{};
    p.batch = o.positive("batch", 128, "of a step");
    p.updates = o.positive("updates", 4700, "of a run, 640 or more");
    p.sample = o.positive("sample", 4096, "training images of the gradients, 256 or more");
    p.rate = o.number("rate", 0.1, "learning rate");
    const int seeds = o.positive("seeds", 3, "runs");
    o.done();
    if (p.updates < 10 * farthest) throw error("--updates takes 640 or more");
    science::results table(out, "batch,learning_rate,seed,t,j,what,value,seconds");
    examples::with_fashion_mnist(
        folder, [&](const auto& training, const auto&) { measure(training, table, p, seeds); });
  });
}
