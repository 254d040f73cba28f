// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The bias of decentralised momentum with large batches: linear regression whose ranks have
// different data, trained by parallel SGD, DSGD, DmSGD and DecentLaM over several topologies and
// batch sizes.
//
//   f_i(x) = E (x - t)^2 / 2 with t of mean b_i      the samples of rank i scatter around b_i
//   error  = mean over ranks of (x_i - mean of b)^2  noise, about 1 / batch, and bias, which does
//                                                    not depend on the batch
//
// The exact fixed points are printed beside the measured errors. scripts/plot-decentralized plots
// the table.
#include <cmath>
#include <cstdio>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// A linear model of one weight: its input is 1, its label is drawn around the target of the rank.
struct regression {
  using precision = fp64;
  using device = cpu;
  using packed_parameters = buffer<double, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;
  static constexpr std::array<segment, 1> table{segment{"x", kind::weight, 0, 1}};

  double target = 0, noise = 1;
  random_sequence draw;
  double gradient = 0, loss = 0;
  std::int64_t samples = 0;

  static constexpr std::span<const segment> segments() { return table; }
  [[nodiscard]] cpu get_device() const { return cpu{1}; }
  void initialize(span_on<double, cpu> plane, std::uint64_t) const { plane[0] = 0; }
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(cpu{1}, 1);
  }
  void pack_parameters(span_on<double, cpu> plane, packed_parameters& to, cpu::stream) const {
    to.span()[0] = plane[0];
  }

  void forward(const packed_parameters& x, span_on<double, cpu>, const batch<cpu>& b, phase,
               cpu::stream) {
    gradient = loss = 0;
    samples = b.count;
    for (int i = 0; i < b.count; ++i) {
      const double residual = x.span()[0] - (target + noise * draw.normal());
      loss += residual * residual / 2;
      gradient += residual * b.loss_weight();
    }
  }
  template <class Ready>
  void backward(const packed_parameters&, span_on<double, cpu> grads, write_mode, Ready&& ready,
                cpu::stream) {
    grads[0] += gradient;
    ready(0);
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {loss, 0, 0, samples}; }
};
static_assert(Model<regression>);

struct plan {
  int ranks, steps, average;
  double learning_rate, momentum, noise;
  std::uint64_t seed;
};

// Targets 0, 1, 2, 5; more ranks repeat them with a shift.
double target_of(int rank) {
  constexpr std::array first{0.0, 1.0, 2.0, 5.0};
  return first[static_cast<std::size_t>(rank % 4)] + rank / 4;
}

// Mean over the last steps of the mean squared distance of the ranks from the optimum.
template <class O, class Reduce>
double measured_error(const plan& p, int batch_size, const O& optimizer, const Reduce& reduce) {
  double optimum = 0;
  for (int r = 0; r < p.ranks; ++r) optimum += target_of(r) / p.ranks;
  double error = 0;
  threads::launch(p.ranks, [&](threads comm) {
    const int samples = batch_size / p.ranks;
    regression model{
        target_of(comm.rank()), p.noise,
        random_sequence(p.seed, purpose::synthetic, static_cast<std::uint64_t>(comm.rank()), 0)};
    trainer run{model, optimizer, constant{p.learning_rate}, reduce(comm)};
    const batch<cpu> samples_of_step{{}, {}, samples, batch_size, p.ranks};
    double sum = 0;
    for (int k = 0; k < p.steps; ++k) {
      run.step(std::array{samples_of_step}, k);
      if (k >= p.steps - p.average) sum += std::pow(run.weights()[0] - optimum, 2) / p.average;
    }
    std::array square{sum};
    allreduce_host(comm, square, reduce_op::sum);
    if (comm.rank() == 0) error = square[0] / p.ranks;
  });
  return error;
}

// The error of the fixed point of full gradients, x = W (x - step (x - b)), by iteration. That of
// DmSGD is DSGD's with the step lr / (1 - momentum).
template <class G>
double bias(const plan& p, const G& topology, double step) {
  const auto n = static_cast<std::size_t>(p.ranks);
  std::vector<double> x(n), stepped(n);
  double optimum = 0;
  for (std::size_t i = 0; i < n; ++i) optimum += target_of(static_cast<int>(i)) / p.ranks;
  double change = 1;
  for (int k = 0; change > 1e-14 && k < 1'000'000; ++k) {  // too long a step diverges
    for (std::size_t i = 0; i < n; ++i)
      stepped[i] = x[i] - step * (x[i] - target_of(static_cast<int>(i)));
    change = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double mixed = stepped[i];
      for (const topologies::edge& e : topology.in_edges(static_cast<int>(i), p.ranks, 0))
        mixed += e.weight * (stepped[static_cast<std::size_t>(e.peer)] - stepped[i]);
      change = std::max(change, std::abs(mixed - x[i]));
      x[i] = mixed;
    }
  }
  double error = 0;
  for (const double value : x) error += std::pow(value - optimum, 2) / p.ranks;
  return error;
}

struct output_file {
  explicit output_file(const std::string& path) : stream(std::fopen(path.c_str(), "w")) {
    if (stream == nullptr) throw error(concat("cannot write \"", path, "\""));
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file() { std::fclose(stream); }
  std::FILE* stream;
};

void compare(const plan& p, const std::vector<int>& batches, const std::string& path) {
  const output_file out(path);
  std::fprintf(out.stream, "method,topology,batch,error,bias\n");
  std::printf("%-22s %-28s %8s %12s %12s\n", "method", "topology", "batch", "error", "bias");
  const auto print_row = [&](const char* method, const std::string& topology, int batch_size,
                             double error, double exact) {
    std::fprintf(out.stream, "%s,%s,%d,%s,%s\n", method, topology.c_str(), batch_size,
                 decimal::general(error, 9).c_str(), decimal::general(exact, 9).c_str());
    std::printf("%-22s %-28s %8d %12s %12s\n", method, topology.c_str(), batch_size,
                decimal::scientific(error, 3).c_str(), decimal::scientific(exact, 3).c_str());
  };
  for (const int b : batches) {
    print_row(
        "parallel SGD", "all-reduce", b,
        measured_error(p, b, sgd{.momentum = p.momentum}, [](threads comm) { return ring{comm}; }),
        0);
    const auto over = [&](const auto& topology) {
      const auto reduce = [&](threads comm) { return gossip{comm, topology}; };
      const std::string name = topology.describe();
      const double exact = bias(p, topology, p.learning_rate);
      print_row("DSGD", name, b, measured_error(p, b, decentlam{.momentum = 0}, reduce), exact);
      print_row("DmSGD", name, b,
                measured_error(p, b, local_steps{sgd{.momentum = p.momentum}, 1}, reduce),
                bias(p, topology, p.learning_rate / (1 - p.momentum)));
      print_row("DecentLaM", name, b,
                measured_error(p, b, decentlam{.momentum = p.momentum}, reduce), exact);
    };
    over(topologies::ring{});
    over(topologies::star{});
    over(topologies::symmetric_exponential{});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "decentralized: bias and noise of decentralised SGD by batch and topology");
    plan p;
    p.ranks = o.positive("ranks", 4, "ranks, each with data of its own");
    p.steps = o.positive("steps", 3000, "updates of a run");
    p.average = o.positive("average", 2000, "number of last updates whose error is averaged");
    p.learning_rate = o.number("learning-rate", 0.1, "learning rate");
    p.momentum = o.number("momentum", 0.9, "of parallel SGD, DmSGD and DecentLaM");
    p.noise = o.number("noise", 3, "standard deviation of a sample's target around its rank's");
    p.seed = o.seed("seed of the samples");
    const int most =
        o.positive("largest", 4096, "largest batch, over all ranks; batches are 16, 64, 256, …");
    const std::string csv = o.string("csv", "decentralized.csv", "write the table to this file");
    o.done();
    if (p.ranks < 1 || p.average < 1 || p.average > p.steps)
      throw error("--ranks must be at least 1, and --average at most --steps");
    std::vector<int> batches;
    for (int b = 16; b <= most; b *= 4) batches.push_back(std::max(1, b / p.ranks) * p.ranks);
    if (batches.empty()) throw error("--largest must be at least 16, the smallest batch");
    compare(p, batches, csv);
    std::printf("written to %s; scripts/plot-decentralized plots it\n", csv.c_str());
  });
}
