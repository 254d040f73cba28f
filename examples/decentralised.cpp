// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What decentralised momentum does to large batches: linear regression whose ranks see different
// data, trained by parallel SGD, DSGD, DmSGD and DecentLaM over several graphs and batch sizes.
//
//   f_i(x) = E (x - t)^2 / 2 with t of mean b_i      a rank's samples scatter around its own target
//   error = mean over ranks of (x_i - mean of b)^2   what remains of it is noise, about 1 / batch,
//                                                    and bias, which no batch makes smaller
//
// The exact fixed points are written beside what was measured. scripts/plot-decentralised draws it.
#include <cmath>
#include <cstdio>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// A linear model of one weight: its input is 1, its label a target drawn around the rank's own.
struct regression {
  using precision = fp64;
  using device = cpu;
  using image = buffer<double, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;
  static constexpr std::array<segment, 1> table{segment{"x", kind::weight, 0, 1}};

  double target = 0, noise = 1;
  random_sequence draw;
  double gradient = 0, loss = 0;
  std::int64_t samples = 0;

  static constexpr std::span<const segment> segments() { return table; }
  [[nodiscard]] cpu where() const { return cpu{1}; }
  void initialise(span_on<double, cpu> plane, std::uint64_t) const { plane[0] = 0; }
  [[nodiscard]] image make_image() const { return image(cpu{1}, 1); }
  void publish(span_on<double, cpu> plane, image& to, cpu::stream) const {
    to.span()[0] = plane[0];
  }

  void forward(const image& x, span_on<double, cpu>, const batch<cpu>& b, phase, cpu::stream) {
    gradient = loss = 0;
    samples = b.count;
    for (int i = 0; i < b.count; ++i) {
      const double off = x.span()[0] - (target + noise * draw.normal());
      loss += off * off / 2;
      gradient += off * b.seed();
    }
  }
  template <class Ready>
  void backward(const image&, span_on<double, cpu> grads, into, Ready&& ready, cpu::stream) {
    grads[0] += gradient;
    ready(0);
  }
  [[nodiscard]] score read_score(cpu::stream) const { return {loss, 0, 0, samples}; }
};
static_assert(Model<regression>);

struct plan {
  int ranks, steps, average;
  double rate, momentum, noise;
  std::uint64_t seed;
};

// Targets 0, 1, 2, 5 as in the literature's smallest example; more ranks repeat them with a shift.
double target_of(int rank) {
  constexpr std::array first{0.0, 1.0, 2.0, 5.0};
  return first[static_cast<std::size_t>(rank % 4)] + rank / 4;
}

// Mean over the last steps of the mean square distance of the ranks from the optimum.
template <class O, class Reduce>
double measured(const plan& p, int batch_size, const O& rule, const Reduce& reduce) {
  double optimum = 0;
  for (int r = 0; r < p.ranks; ++r) optimum += target_of(r) / p.ranks;
  double error = 0;
  threads::launch(p.ranks, [&](threads link) {
    const int own = batch_size / p.ranks;
    regression model{
        target_of(link.rank()), p.noise,
        random_sequence(p.seed, purpose::synthetic, static_cast<std::uint64_t>(link.rank()), 0)};
    trainer run{model, rule, constant{p.rate}, reduce(link)};
    const batch<cpu> all{{}, {}, own, batch_size, p.ranks};
    double sum = 0;
    for (int k = 0; k < p.steps; ++k) {
      run.step(std::array{all}, k);
      if (k >= p.steps - p.average) sum += std::pow(run.weights()[0] - optimum, 2) / p.average;
    }
    std::array square{sum};
    agree(link, square, cordee::sum{});
    if (link.rank() == 0) error = square[0] / p.ranks;
  });
  return error;
}

// Where full gradients end: x = W (x - step (x - b)), by iteration until nothing moves. DmSGD ends
// where DSGD would with the step rate / (1 - momentum).
template <class G>
double bias(const plan& p, const G& graph, double step) {
  const auto n = static_cast<std::size_t>(p.ranks);
  std::vector<double> x(n), said(n);
  double optimum = 0;
  for (std::size_t i = 0; i < n; ++i) optimum += target_of(static_cast<int>(i)) / p.ranks;
  double moved = 1;
  for (int k = 0; moved > 1e-14 && k < 1'000'000; ++k) {  // a step that is too long never settles
    for (std::size_t i = 0; i < n; ++i)
      said[i] = x[i] - step * (x[i] - target_of(static_cast<int>(i)));
    moved = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double mixed = said[i];
      for (const edge& e : graph.in(static_cast<int>(i), p.ranks, 0))
        mixed += e.weight * (said[static_cast<std::size_t>(e.peer)] - said[i]);
      moved = std::max(moved, std::abs(mixed - x[i]));
      x[i] = mixed;
    }
  }
  double error = 0;
  for (const double value : x) error += std::pow(value - optimum, 2) / p.ranks;
  return error;
}

struct file {
  explicit file(const std::string& path) : to(std::fopen(path.c_str(), "w")) {
    if (to == nullptr) throw error(text("cannot write \"", path, "\""));
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { std::fclose(to); }
  std::FILE* to;
};

void compare(const plan& p, const std::vector<int>& batches, const std::string& path) {
  const file out(path);
  std::fprintf(out.to, "method,graph,batch,error,bias\n");
  std::printf("%-22s %-28s %8s %12s %12s\n", "method", "graph", "batch", "error", "bias");
  const auto tell = [&](const char* method, const std::string& graph, int batch_size, double error,
                        double exact) {
    std::fprintf(out.to, "%s,%s,%d,%.9g,%.9g\n", method, graph.c_str(), batch_size, error, exact);
    std::printf("%-22s %-28s %8d %12.3e %12.3e\n", method, graph.c_str(), batch_size, error, exact);
  };
  for (const int b : batches) {
    tell("parallel SGD", "all-reduce", b,
         measured(p, b, sgd{.momentum = p.momentum}, [](threads link) { return ring{link}; }), 0);
    const auto over = [&](const auto& graph) {
      const auto reduce = [&](threads link) { return gossip{link, graph}; };
      const std::string name = graph.describe();
      const double small = bias(p, graph, p.rate);
      tell("DSGD", name, b, measured(p, b, decentlam{.momentum = 0}, reduce), small);
      tell("DmSGD", name, b, measured(p, b, local{sgd{.momentum = p.momentum}, 1}, reduce),
           bias(p, graph, p.rate / (1 - p.momentum)));
      tell("DecentLaM", name, b, measured(p, b, decentlam{.momentum = p.momentum}, reduce), small);
    };
    over(cycle{});
    over(star{});
    over(symmetric_exponential{});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "decentralised: bias and noise of decentralised SGD over batch and graph");
    plan p;
    p.ranks = o.whole("ranks", 4, "workers, each with data of its own");
    p.steps = o.whole("steps", 3000, "updates of a run");
    p.average = o.whole("average", 2000, "so many last updates are averaged");
    p.rate = o.number("rate", 0.1, "learning rate");
    p.momentum = o.number("momentum", 0.9, "of parallel SGD, DmSGD and DecentLaM");
    p.noise = o.number("noise", 3, "deviation of a sample's target from its rank's");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of the samples"));
    const int most = o.whole("largest", 4096, "batch, over all ranks; from 16 on it is quadrupled");
    const std::string csv = o.text("csv", "decentralised.csv", "write the table to this file");
    o.done();
    if (p.ranks < 1 || p.average < 1 || p.average > p.steps)
      throw error("at least one rank is needed, and no more updates to average than there are");
    std::vector<int> batches;
    for (int b = 16; b <= most; b *= 4) batches.push_back(std::max(1, b / p.ranks) * p.ranks);
    if (batches.empty()) throw error("--largest is below 16, the smallest batch");
    compare(p, batches, csv);
    std::printf("written to %s; scripts/plot-decentralised draws it\n", csv.c_str());
  });
}
