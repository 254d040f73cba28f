// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a rule's step costs beside a loop written by hand for it.
//
// ResNet-50's 25.6 million parameters in their 161 segments, single precision, one `accept` of each
// rule. The loop by hand makes the same reads and writes with the same arithmetic over the whole
// plane: no segments, no kinds, vectorised by the compiler whatever the flags of this build. The
// two take turns, so that a change of clock or a neighbour's load meets both; figures are minima.
// GB/s counts each number read or written once. benchmarks/compare_torch.sh sets the lines of
// --lines beside PyTorch's.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <cordee/comm/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/planes.hpp>

#include "benchmarks/optimizer_by_hand.hpp"
#include "benchmarks/options.hpp"

namespace {

using namespace cordee;
using namespace by_hand;

struct options {
  int reps = 30, threads = 2, lines = 0;
};

constexpr const char* usage =
    "optimizer: accept of each rule on ResNet-50's parameters, beside a loop by hand\n"
    "  --reps N      repetitions, minima are printed   (30)\n"
    "  --threads N   workers                           (2)\n"
    "  --lines 1     sgd and adamw as `name seconds`   (all, as a table)\n"
    "  --help        this\n";

options parse(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps}, {"--threads", &o.threads}, {"--lines", &o.lines}});
  return o;
}

using bench::now;

/// Convolutions with their two of batch norm each, bottlenecks 3, 4, 6, 3, and the classifier.
std::vector<segment> resnet50() {
  std::vector<segment> table;
  std::size_t offset = 0;
  const auto add = [&](kind what, int size) {
    table.push_back({"", what, offset, static_cast<std::size_t>(size)});
    offset += aligned(table.back().size);
  };
  const auto convolution = [&](int in, int out, int window) {
    add(kind::weight, in * out * window * window);
    add(kind::scale, out);
    add(kind::shift, out);
  };
  convolution(3, 64, 7);
  int channels = 64, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      convolution(channels, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (i == 0) convolution(channels, 4 * width, 1);
      channels = 4 * width;
    }
    width *= 2;
  }
  add(kind::weight, channels * 1000);
  add(kind::bias, 1000);
  return table;
}

volatile double sink;

/// f(numbers) on each worker's half of the planes.
template <class P, class F>
void halves(P& planes, cpu::stream s, const F& f) {
  parallel(s, planes.weights().size, segment_alignment, [&](std::size_t first, std::size_t last) {
    float* const v = planes.slot(1).data;
    f(numbers{planes.weights().data + first, planes.grads().data + first,
              planes.slot(0).data + first, v + first, last - first});
  });
}

/// Two slots for every rule, so that all loops find the same planes.
struct any_rule {
  static constexpr int slots = 2;
};

template <class O, class Hand>
void compare(const char* name, const O& rule, int bytes_each, const options& o, const Hand& hand) {
  const std::vector<segment> table = resnet50();
  const cpu device(o.threads);
  const cpu::stream s = device.open();
  planes<float, cpu, any_rule, solo> memory(device, table);
  random_sequence draw(1, purpose::test, 0, 0);
  const auto refresh = [&](span_on<float, cpu> x, float size) {
    for (float& v : x) v = size * (static_cast<float>(draw.bits() >> 8) * 0x1p-23f - 1);
  };
  refresh(memory.weights(), 0.1f);
  refresh(memory.grads(), 0.01f);
  memory.begin({}, s);
  memory.measure(table, 0, true, s);
  memory.tally(table, 0, true, s);
  const auto whole = memory.sight(table, 0, true);
  view<float, cpu, O::slots> v{whole.weights, whole.grads, {}, table};
  for (std::size_t k = 0; k < v.slots.size(); ++k) v.slots[k] = whole.slots[k];
  v.weight_squares = whole.weight_squares;
  v.grad_squares = whole.grad_squares;
  v.grad_square = whole.grad_square;
  v.sums = whole.sums;

  double best = 1e9, best_hand = 1e9;
  for (int rep = 0; rep <= o.reps; ++rep) {  // the first one only touches the memory
    const double t0 = now();
    rule.accept(v, moment{rep, rep, rep, 0, 1e-3, 1e-3}, s);
    const double t1 = now();
    halves(memory, s, hand);
    const double t2 = now();
    if (rep == 0) continue;
    best = std::min(best, t1 - t0);
    best_hand = std::min(best_hand, t2 - t1);
  }
  if (o.lines != 0) {
    std::printf("cordee/%s_step %.9f\nby_hand/%s_step %.9f\n", name, best, name, best_hand);
    return;
  }
  const double bytes = static_cast<double>(bytes_each) * static_cast<double>(v.weights.size);
  std::printf("%-20s %8.2f ms  %5.1f GB/s   by hand %8.2f ms  %5.1f GB/s   ratio %5.3f\n", name,
              best * 1e3, bytes / best * 1e-9, best_hand * 1e3, bytes / best_hand * 1e-9,
              best_hand / best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  if (o.lines != 0) {
    compare("sgd", sgd{}, 20, o, rate_outside);
    compare("adamw", adamw{}, 28, o, adam);
    return 0;
  }
  std::size_t parameters = 0;
  const auto table = resnet50();
  for (const segment& s : table) parameters += s.size;
  std::printf("%zu parameters in %zu segments, fp32, %d threads, minima of %d\n", parameters,
              table.size(), o.threads, o.reps);

  compare("sgd", sgd{}, 20, o, rate_outside);
  compare("velocity_sgd", velocity_sgd{}, 20, o, rate_inside);
  compare("lars", lars{}, 20, o, rate_inside);
  compare("lars_rate_outside", lars_rate_outside{}, 20, o, rate_outside);
  compare("lars_unscaled", lars_unscaled{}, 20, o, rate_outside);
  compare("adamw", adamw{}, 28, o, adam);
  const auto both = [](numbers x) {
    sink = lamb_first(x);
    lamb_second(x);
  };
  compare("lamb", lamb{}, 40, o, both);
  compare("nvlamb", nvlamb{}, 40, o, both);
  compare("decentlam accept", decentlam{}, 20, o, displaced);
  compare("clip{sgd}", clip{sgd{}, 1e-30}, 28, o, [](numbers x) {
    shorten(x);
    rate_outside(x);
  });
  return 0;
}
