// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The time of an optimizer's step, compared with a hand-written loop.
//
// ResNet-50's 25.6 million parameters in their 161 segments, in fp32, one `accept` of each
// optimizer. The hand-written loop has the same reads, writes and arithmetic over the whole plane,
// without segments and kinds, and is vectorised by the compiler with any flags of this build. The
// two are timed in turn, so that a change of clock frequency or of the machine's load affects both;
// figures are minima. GB/s counts each number read or written once. benchmarks/compare_torch.sh
// compares the output of --lines with PyTorch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/train/step/planes.hpp>

#include "benchmarks/optimizer_by_hand.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/resnet50_table.hpp"

namespace {

using namespace cordee;
using namespace by_hand;

struct options {
  int reps = 30, threads = 2, lines = 0;
};

constexpr const char* usage =
    "optimizer: accept of each optimizer on ResNet-50's parameters, and a hand-written loop\n"
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

volatile double sink;

/// Calls f(numbers) with each worker's part of the planes.
template <class P, class F>
void parallel_parts(P& planes, cpu::stream s, const F& f) {
  detail::device::parallel_chunks(
      s, planes.weights().size, detail::core::segment_alignment,
      [&](std::size_t first, std::size_t last) {
        float* const v = planes.slot(1).data;
        f(numbers{planes.weights().data + first, planes.grads().data + first,
                  planes.slot(0).data + first, v + first, last - first});
      });
}

/// Three slots for every optimizer, so that all loops use the same planes.
struct three_slots {
  static constexpr int slots = 3;
};

template <class O, class Hand>
void compare(const char* name, const O& optimizer, int bytes_per_parameter, const options& o,
             const Hand& hand) {
  const std::vector<segment> table = bench::resnet50_table();
  const cpu device(o.threads);
  const cpu::stream s = device.make_stream();
  detail::train::planes<float, cpu, three_slots, solo> memory(device, table);
  random_sequence draw(1, purpose::test, 0, 0);
  const auto fill = [&](span_on<float, cpu> x, float size) {
    for (float& v : x) v = size * (static_cast<float>(draw.bits() >> 8) * 0x1p-23f - 1);
  };
  fill(memory.weights(), 0.1f);
  fill(memory.grads(), 0.01f);
  memory.begin_step({}, true, s);
  memory.compute_norms(table, 0, true, s);
  memory.record_norms(table, 0, true, s);
  const auto whole = memory.view_of(table, 0, true);
  optimizer_view<float, cpu, O::slots> v{whole.weights, whole.grads, {}, table};
  for (std::size_t k = 0; k < v.slots.size(); ++k) v.slots[k] = whole.slots[k];
  v.squared_weight_norms = whole.squared_weight_norms;
  v.squared_grad_norms = whole.squared_grad_norms;
  v.squared_global_norm = whole.squared_global_norm;
  v.sums = whole.sums;

  double best = 1e9, best_hand = 1e9;
  for (int rep = 0; rep <= o.reps; ++rep) {  // the first one is a warm-up
    const double t0 = now();
    optimizer.accept(v, step_info{rep, rep, rep, 0, 1e-3, 1e-3}, s);
    const double t1 = now();
    parallel_parts(memory, s, hand);
    const double t2 = now();
    if (rep == 0) continue;
    best = std::min(best, t1 - t0);
    best_hand = std::min(best_hand, t2 - t1);
  }
  if (o.lines != 0) {
    std::printf("cordee/%s_step %.9f\nby_hand/%s_step %.9f\n", name, best, name, best_hand);
    return;
  }
  const double bytes =
      static_cast<double>(bytes_per_parameter) * static_cast<double>(v.weights.size);
  std::printf("%-20s %8.2f ms  %5.1f GB/s   by hand %8.2f ms  %5.1f GB/s   ratio %5.3f\n", name,
              best * 1e3, bytes / best * 1e-9, best_hand * 1e3, bytes / best_hand * 1e-9,
              best_hand / best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  if (o.lines != 0) {
    compare("sgd", sgd{}, 20, o, sgd_lr_outside);
    compare("adamw", cordee::adamw{}, 28, o, by_hand::adamw);
    return 0;
  }
  std::size_t parameters = 0;
  const auto table = bench::resnet50_table();
  for (const segment& s : table) parameters += s.size;
  std::printf("%zu parameters in %zu segments, fp32, %d threads, minima of %d\n", parameters,
              table.size(), o.threads, o.reps);

  compare("sgd", sgd{}, 20, o, sgd_lr_outside);
  compare("velocity_sgd", velocity_sgd{}, 20, o, sgd_lr_inside);
  compare("lars", lars{}, 20, o, sgd_lr_inside);
  compare("lars_lr_outside", lars_lr_outside{}, 20, o, sgd_lr_outside);
  compare("lars_unscaled", lars_unscaled{}, 20, o, sgd_lr_outside);
  compare("larc", larc{}, 20, o, sgd_lr_outside);
  // The norm of the sum is read in a pass of its own.
  compare("lars_norm_of_sum", lars_norm_of_sum{}, 28, o, sgd_lr_inside);
  compare("adamw", cordee::adamw{}, 28, o, by_hand::adamw);
  const auto both = [](numbers x) {
    sink = lamb_direction(x);
    lamb_step(x);
  };
  // The sums per row are of what the first pass writes over the gradient.
  compare("adamp", adamp{}, 40, o, both);
  compare("adam", cordee::adam{}, 28, o, by_hand::adamw);
  compare("rmsprop", rmsprop{.momentum = 0.9}, 28, o, by_hand::adamw);
  compare("centered_rmsprop", centered_rmsprop{.momentum = 0.9}, 36, o, by_hand::adamw);
  compare("rmsprop_warmup", rmsprop_warmup{.center = 0}, 28, o, by_hand::adamw);
  compare("lamb", lamb{}, 40, o, both);
  compare("nvlamb", nvlamb{}, 40, o, both);
  compare("lambc", lambc{}, 40, o, both);
  compare("deepspeed_lamb", deepspeed_lamb{}, 40, o, both);
  compare("qg_dmsgd accept", qg_dmsgd{}, 20, o, decentlam_accept);
  compare("adapt_while accept", adapt_while_combine{sgd{}}, 20, o, sgd_lr_outside);
  compare("weight_average{sgd}", weight_average{sgd{}, exponential_average{}}, 32, o,
          [](numbers x) {
            sgd_lr_outside(x);
            scale_gradient(x);
          });
  compare("decentlam accept", decentlam{}, 20, o, decentlam_accept);
  compare("clip{sgd}", clip{sgd{}, 1e-30}, 28, o, [](numbers x) {
    scale_gradient(x);
    sgd_lr_outside(x);
  });
  return 0;
}
