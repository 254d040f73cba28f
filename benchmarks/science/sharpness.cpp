// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The sharpness of the minima that a small and a large batch reach (Keskar et al., 2017): the
// largest eigenvalue of the training loss's Hessian (hessian.hpp), and the loss along random
// directions, of which every filter has the norm of the network's (Li et al., 2018).
//
//   small          SGD at the small batch
//   large          at the large batch with the same learning rate, as in Keskar et al.
//   large_scaled   with the learning rate of the linear rule
//
// All with momentum 0.9 and a constant learning rate until the loss of a sample of the training set
// is at the target, so that equal losses are compared. Passes if the median over the seeds of the
// large batch's eigenvalue is more than that of the small one, for `large`.
//
// Batch norm makes the loss independent of the norm of the weights before it, and the eigenvalue is
// divided by that norm squared: the table has the norm, too.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
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

struct plan {
  double target, rate;
  int most_epochs, sample;  // images, in updates of 256
};
struct setting {
  std::string name;
  int batch;
  double rate;
};

/// f(first, size) of each filter of a convolution and each row of the classifier.
template <class F>
void for_filters(const F& f) {
  for (const segment& s : net_type::segments()) {
    if (s.kind != kind::weight) continue;
    const std::size_t size = s.size / static_cast<std::size_t>(s.shape[0]);
    for (std::size_t first = s.offset; first < s.end(); first += size) f(first, size);
  }
}
/// Normal numbers of the norm of w within each filter, zeros elsewhere.
science::vector filter_direction(std::span<const double> w, std::uint64_t seed) {
  const science::vector normal = science::normal_vector(w.size(), seed);
  science::vector d(w.size());
  for_filters([&](std::size_t first, std::size_t size) {
    const double factor = science::norm(w.subspan(first, size)) /
                          science::norm(std::span(normal).subspan(first, size));
    for (std::size_t i = first; i < first + size; ++i) d[i] = factor * normal[i];
  });
  return d;
}
/// Norm of the weights of all filters.
double weight_norm(std::span<const double> w) {
  double squares = 0;
  for_filters([&](std::size_t first, std::size_t size) {
    squares += science::dot(w.subspan(first, size), w.subspan(first, size));
  });
  return std::sqrt(squares);
}

template <class Training, class Sample>
struct trained {
  science::vector w;
  double epochs = 0, loss = 0;

  trained(const Training& data, const normalize& norm, Sample& sample, const plan& p,
          const setting& s, std::uint64_t seed) {
    net_type net;
    loader feed{data,
                self_comm{},
                {.global_batch = s.batch, .accumulate = std::max(1, s.batch / 128), .seed = seed},
                pad_crop_flip{},
                norm};
    trainer run{net, sgd{.momentum = 0.9}, constant{s.rate}, solo{}, {.seed = seed}};
    const int steps = std::max(1, static_cast<int>(data.size()) / 4 / s.batch);  // a quarter
    do {
      for (int k = 0; k < steps; ++k) run.step(feed.next(), feed.epoch(run.steps_taken()));
      epochs = feed.epoch(run.steps_taken());
      w.assign(run.weights().begin(), run.weights().end());
      loss = sample.loss(w);
    } while (loss > p.target && epochs < p.most_epochs);
  }
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class Training>
void compare(const Training& data, science::results& table, const plan& p,
             const std::vector<setting>& settings, int seeds) {
  const auto norm = normalize::measured(data);
  loader feed{data, self_comm{}, {.global_batch = 256, .seed = 99}, pad_crop_flip{}, norm};
  science::sample_loss<exact_net, decltype(feed)> sample(feed, p.sample / 256);
  std::map<std::string, double> medians;
  for (const setting& s : settings) {
    std::vector<double> eigenvalues, norms, epochs;
    for (int seed = 1; seed <= seeds; ++seed) {
      std::optional<trained<Training, decltype(sample)>> run;
      const auto reached = [&]() -> const auto& {
        if (!run) run.emplace(data, norm, sample, p, s, static_cast<std::uint64_t>(seed));
        return *run;
      };
      const auto value = [&](const char* what, double at, const auto& f) {
        return table(concat(s.name, ",", s.batch, ",", s.rate, ",", seed, ",", what, ",", at), f);
      };
      epochs.push_back(value("epochs", 0, [&] { return reached().epochs; }));
      value("loss", 0, [&] { return reached().loss; });
      norms.push_back(value("norm", 0, [&] { return weight_norm(reached().w); }));
      std::optional<science::curvature> found;
      const auto curvature = [&]() -> const auto& {
        const auto gradient = [&](const science::vector& w) { return sample.gradient(w); };
        if (!found) found = science::largest_eigenvalue(gradient, reached().w);
        return *found;
      };
      eigenvalues.push_back(value("eigenvalue", 0, [&] { return curvature().eigenvalue; }));
      value("products", 0, [&] { return static_cast<double>(curvature().products); });
      for (int k = -8; k <= 8; ++k)
        value("line", 0.125 * k, [&] {
          double sum = 0;
          for (const std::uint64_t direction : {1u, 2u, 3u})
            sum += sample.loss(
                science::sum_of(reached().w, 0.125 * k, filter_direction(reached().w, direction)));
          return sum / 3;
        });
    }
    medians[s.name] = median(eigenvalues);
    const auto [least, most] = std::minmax_element(eigenvalues.begin(), eigenvalues.end());
    std::printf("%s, batch %d, learning rate %s: eigenvalue %s (%s to %s), |w| %s, %s epochs\n",
                s.name.c_str(), s.batch, decimal::general(s.rate, 6).c_str(),
                decimal::general(medians[s.name], 3).c_str(), decimal::general(*least, 3).c_str(),
                decimal::general(*most, 3).c_str(), decimal::general(median(norms), 3).c_str(),
                decimal::general(median(epochs), 3).c_str());
  }
  std::printf(
      "sharper by the large batch: %s times at the same learning rate, %s times at the "
      "scaled one\npasses: %s\n",
      decimal::fixed(medians["large"] / medians["small"], 2).c_str(),
      decimal::fixed(medians["large_scaled"] / medians["small"], 2).c_str(),
      medians["large"] > medians["small"] ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "sharpness: the Hessian's largest eigenvalue, small and large batch");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the idx files");
    const std::string out = o.string("out", "sharpness.csv", "a line for each number");
    plan p;
    p.target = o.number("target", 0.35, "loss of the sample at which a run ends");
    p.rate = o.number("rate", 0.05, "learning rate of the small batch");
    p.most_epochs = o.positive("epochs", 150, "of a run, at most");
    p.sample = o.positive("sample", 4096, "training images of loss and Hessian, 256 or more");
    const int small = o.positive("small", 128, "batch"), large = o.positive("large", 2048, "batch"),
              seeds = o.positive("seeds", 3, "runs of each setting");
    o.done();
    science::results table(out, "setting,batch,learning_rate,seed,what,at,value,seconds");
    const std::vector<setting> settings{{"small", small, p.rate},
                                        {"large_scaled", large, p.rate * large / small},
                                        {"large", large, p.rate}};
    examples::with_fashion_mnist(folder, [&](const auto& training, const auto&) {
      compare(training, table, p, settings, seeds);
    });
  });
}
