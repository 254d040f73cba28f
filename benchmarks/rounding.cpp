// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The error of a residual network's first step on the CPU, in units of the roundoff of its stored
// numbers, beside that of exact arithmetic which rounds only what must be stored, and beside that
// with a fault (rounded_network.hpp): of the logits, and of the loss. A line of JSON each, over the
// seeds. `within`: the library's median error of the logits is at most 1.25 times the rounded one's
// in 16 bits, and at most 8 times in fp32, whose sums are rounded as well.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/first_step.hpp"
#include "benchmarks/rounded_network.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

struct plan {
  int net, samples, seeds, first;
  bool faults, all_within = true;
};

struct errors {
  bench::doubles logits, loss;

  void add(const bench::doubles& z, double of_loss, const bench::doubles& exact, double exact_loss,
           double unit) {
    logits.push_back(bench::relative_error(z, exact) / unit);
    loss.push_back(std::abs(of_loss / exact_loss - 1) / unit);
  }
  [[nodiscard]] double median() const {
    bench::doubles sorted = logits;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  [[nodiscard]] std::string describe() const {
    double squares = 0;
    for (const double x : loss) squares += x * x;
    return concat("\"seeds\": ", logits.size(), ", \"logits_median\": ", median(),
                  ", \"logits_most\": ", std::ranges::max(logits),
                  ", \"loss_rms\": ", std::sqrt(squares / static_cast<double>(loss.size())),
                  ", \"loss_most\": ", std::ranges::max(loss));
  }
};

template <Precision P, int Depth, resnet_options Of>
void measure(plan& p) {
  if (p.net != Depth) return;
  using net = resnet<Depth, P, cpu, Of, direct>;
  using number = typename P::storage;
  using bench::fault;
  constexpr auto at = bench::properties_of<typename net::layers, net::input>();
  constexpr std::array names{"rounded", "accumulation", "statistics", "truncation", "scale"};
  errors library, by_fault[names.size()];
  double deviations = 0;
  for (int seed = p.first; seed < p.first + p.seeds; ++seed) {
    const auto step = bench::first_step::draw<net, P>(p.samples, seed);
    const bench::doubles images = step.numbers();
    const auto logits_of = [&]<Number N>(N, fault wrong) {
      bench::rounded_network<N> of(step.plane, at.table, p.samples, wrong, Depth / 3);
      return of.template logits<net>(images);
    };
    bench::doubles gradient;
    const bench::doubles exact = logits_of(double{}, fault::none);
    const double loss = step.loss(exact, gradient), unit = bench::unit_roundoff<P>;
    const auto result = bench::step_of<net>(cpu{}, step, false);
    library.add(result.logits, result.loss, exact, loss, unit);
    for (std::size_t k = 0; k < (p.faults ? names.size() : 1); ++k) {
      const bench::doubles z = logits_of(number{}, static_cast<fault>(k));
      by_fault[k].add(z, step.loss(z, gradient), exact, loss, unit);
    }
    const double of_logits = by_fault[0].logits.back();
    deviations += std::pow(step.loss_deviation(exact, of_logits), 2) / p.seeds;
  }
  const double ratio = library.median() / by_fault[0].median();
  const bool within = ratio <= (sizeof(number) == 2 ? 1.25 : 8);
  if (!within) p.all_within = false;
  const auto print = [&](const char* what, const std::string& rest) {
    std::printf("{\"net\": %d, \"precision\": \"%s\", \"step\": \"%s\", %s}\n", Depth,
                std::string(P::name).c_str(), what, rest.c_str());
    std::fflush(stdout);
  };
  print("library", concat(library.describe(), ", \"ratio\": ", ratio,
                          ", \"within\": ", within ? "true" : "false"));
  print(names[0], concat(by_fault[0].describe(), ", \"sigma\": ", std::sqrt(deviations)));
  for (std::size_t k = 1; p.faults && k < names.size(); ++k)
    print(names[k], by_fault[k].describe());
}

template <Precision P>
void measure_in(plan& p) {
  measure<P, 8, resnet_options{.image = {3, 8, 8}}>(p);
  measure<P, 20, resnet_options{}>(p);
  measure<P, 50, resnet_options{}>(p);
}

}  // namespace

int main(int argc, char** argv) {
  plan p;
  const int status = examples::run([&] {
    examples::options o(argc, argv, "rounding: the error of a first step beside unavoidable ones");
    p.net = o.whole("net", 8, "the ResNet: 8 on images of 8x8, 20, or 50");
    p.samples = o.positive("batch", 2, "samples");
    p.seeds = o.positive("seeds", 8, "seeds");
    p.first = o.whole("first", 0, "the first seed");
    p.faults = o.flag("faults", "faults, too");
    o.done();
    expects(p.net == 8 || p.net == 20 || p.net == 50, "rounding: --net is 8, 20 or 50");
    measure_in<fp16>(p);
    measure_in<bf16>(p);
    measure_in<fp32>(p);
  });
  return p.all_within ? status : EXIT_FAILURE;
}
