// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The published large-batch runs of ResNet-50 on ImageNet as compositions of this library: figures
// as their sources print them, and precision, optimizer, schedule and reducer as types.
//
// What a paper does not say, or this library does not have, is marked "ours".
#pragma once

#include <cstdint>
#include <string_view>

#include <cordee/cordee.hpp>

namespace recipes {

using namespace cordee;

inline constexpr std::int64_t images = 1'281'167;  // of ImageNet's training set

/// A run as its source prints it.
struct published {
  std::string_view authors, source, processor;
  std::int64_t epochs, batch, processors;
  last_batch tail;               // by which the printed number of updates is reached
  std::int64_t steps;            // printed
  double seconds_a_step = 0;     // 0: not printed
  double minutes = 0, top1 = 0;  // of the whole run; per cent

  [[nodiscard]] constexpr std::int64_t counted_steps() const {
    const auto above = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    return tail == last_batch::carry ? above(epochs * images, batch)
                                     : epochs * above(images, batch);
  }
  [[nodiscard]] constexpr std::int64_t per_processor() const { return batch / processors; }
  [[nodiscard]] constexpr double counted_minutes() const {
    return static_cast<double>(counted_steps()) * seconds_a_step / 60;
  }
};

/// Whether the figures of a run agree: updates exactly, its batch divides, its minutes as printed.
constexpr bool agrees(const published& run) {
  const double difference = run.counted_minutes() - run.minutes;
  return run.counted_steps() == run.steps && run.per_processor() * run.processors == run.batch &&
         (run.seconds_a_step == 0 || (difference < 0.05 && difference > -0.05));
}

/// The baseline: plain SGD on one machine. No number of updates is printed: that of 90 epochs.
struct he {
  static constexpr published figures{
      "He", "arXiv 1512.03385", "P100", 90, 256, 8, last_batch::carry, 450'411, 0, 29 * 60, 75.3};
  using precision = fp32;
  static auto optimizer() { return sgd{.momentum = 0.9, .weight_decay = 1e-4}; }
  static auto schedule() { return multistep{.learning_rate = 0.1, .milestones = {30, 60}}; }
  template <class C>
  static auto reducer(const C& comm) {
    return ring{comm};  // ours
  }
};
static_assert(agrees(he::figures) && he::figures.per_processor() == 32);

/// Linear scaling and gradual warm-up.
struct goyal {
  static constexpr published figures{"Goyal", "arXiv 1706.02677", "P100", 90,    8'192,
                                     256,     last_batch::carry,  14'076, 0.255, 59.8,
                                     76.3};
  using precision = fp32;
  static auto optimizer() { return sgd{.momentum = 0.9, .weight_decay = 1e-4}; }
  static auto schedule() {
    return warmup{5,
                  linear_scaled{multistep{.learning_rate = 0.1, .milestones = {30, 60, 80}}, 256,
                                figures.batch},
                  {0.1}};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return halving_doubling{comm};  // across machines; inside of one they add first
  }
};
static_assert(agrees(goyal::figures) && goyal::figures.per_processor() == 32);

/// LARS. The epochs are 90 or 64.
template <std::int64_t Epochs>
struct you {
  static constexpr published figures{"You",
                                     "arXiv 1709.05011",
                                     "KNL",
                                     Epochs,
                                     32'768,
                                     2048,
                                     last_batch::carry,
                                     Epochs == 90 ? 3'519 : 2'503,
                                     Epochs == 90 ? 0.341 : 0.335,
                                     Epochs == 90 ? 20.0 : 14.0,
                                     Epochs == 90 ? 75.4 : 74.9};
  using precision = fp32;
  static auto optimizer() {
    return lars{.momentum = 0.9, .weight_decay = 1e-4, .trust_coefficient = 0.001};
  }
  static auto schedule() {  // the warm-up and the peak are ours: LEGW's of 32,768
    return legw{10.0 / 32, polynomial{.peak = 5.656854249492381, .epochs = Epochs, .power = 2},
                1'024, figures.batch};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return tree{comm};  // ours
  }
};
static_assert(agrees(you<90>::figures) && you<90>::figures.per_processor() == 16);
static_assert(agrees(you<64>::figures));

/// RMSprop turns into SGD; half the learning rate for 40 epochs; 16 bits on the wire.
struct akiba {
  static constexpr published figures{"Akiba", "arXiv 1711.04325", "P100", 90,    32'768,
                                     1024,    last_batch::carry,  3'519,  0.255, 15.0,
                                     74.9};
  using precision = fp32;
  static auto optimizer() { return rmsprop_warmup{.momentum = 0.9, .weight_decay = 1e-4}; }
  static auto schedule() {
    return linear_scaled{akiba_slow_start{.learning_rate = 0.1}, 256, figures.batch};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return compressed{ring{comm}, fp16{}};
  }
};
static_assert(agrees(akiba::figures) && akiba::figures.per_processor() == 32);

/// LARS in mixed precision; rings for long messages, a hierarchy for short ones.
struct jia {
  static constexpr published figures{
      "Jia", "arXiv 1807.11205", "P40", 90, 65'536, 2048, last_batch::pad, 1'800, 0.220, 6.6, 75.8};
  using precision = fp16;
  static auto optimizer() {
    return lars{.momentum = 0.9, .weight_decay = 1e-4, .trust_coefficient = 0.001};
  }
  static auto schedule() {  // ours
    return mlperf_poly2{.peak = 32, .warmup_epochs = 14, .epochs = 90};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return hybrid{hierarchical{comm, nodes{16}}, ring{comm}, 1u << 18};
  }
};
static_assert(agrees(jia::figures) && jia::figures.per_processor() == 32);

/// A two-dimensional mesh; batch norm over groups of processors (trainer_options).
struct ying {
  static constexpr int batch_norm_over = 2;  // ours: of processors
  static constexpr published figures{"Ying", "arXiv 1811.06992", "TPU v3", 90,    32'768,
                                     1024,   last_batch::carry,  3'519,    0.037, 2.2,
                                     76.3};
  using precision = bf16;
  static auto optimizer() {
    return lars{.momentum = 0.9, .weight_decay = 2e-4, .trust_coefficient = 0.001};
  }
  static auto schedule() {  // the reference's for this batch
    return mlperf_poly2{.peak = 31.2, .warmup_epochs = 25, .epochs = 90};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return torus_ring{comm};
  }
};
static_assert(agrees(ying::figures) && ying::figures.per_processor() == 32);

/// A two-dimensional torus, 16 bits on the wire. Its batch grows in the run; the table has one.
struct mikami {
  static constexpr published figures{"Mikami", "arXiv 1811.05233", "V100", 90,    55'296,
                                     3456,     last_batch::carry,  2'086,  0.057, 2.0,
                                     75.3};
  using precision = fp16;
  static auto optimizer() {
    return lars{.momentum = 0.9, .weight_decay = 5e-5, .trust_coefficient = 0.01, .epsilon = 1e-6};
  }
  static auto schedule() {  // ours
    return mlperf_poly2{.peak = 29, .warmup_epochs = 10, .epochs = 90};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return compressed{torus_ring{comm}, fp16{}};
  }
};
static_assert(agrees(mikami::figures) && mikami::figures.per_processor() == 16);

/// Norms of all tensors in one kernel, buckets in the order of backward: as this library does.
struct yamazaki {
  static constexpr published figures{"Yamazaki", "arXiv 1903.12650", "V100", 90,    81'920,
                                     2048,       last_batch::pad,    1'440,  0.050, 1.2,
                                     75.1};
  using precision = fp16;
  static auto optimizer() {
    return lars{.momentum = 0.9, .weight_decay = 5e-5, .trust_coefficient = 0.001};
  }
  static auto schedule() {  // ours
    return mlperf_poly2{.peak = 33, .warmup_epochs = 20, .epochs = 90};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return compressed{torus_ring{comm}, fp16{}};  // ours: a ring's messages alone take longer
  }
};
static_assert(agrees(yamazaki::figures) && yamazaki::figures.per_processor() == 40);

/// The batch grows where the learning rate would fall: twice 8,192 from epoch 30 on, and decays at
/// 60 and 80. Neither updates nor seconds of one are printed: not in the table of for_each_recipe.
struct smith {
  static constexpr published figures{
      "Smith", "arXiv 1711.00489", "TPU", 90, 8'192, 256, last_batch::carry, 0, 0, 30, 76.1};
  static constexpr batch_schedule growth{{{30, 2}}};
  using precision = fp32;
  static auto optimizer() { return sgd{.momentum = 0.9, .weight_decay = 1e-4}; }
  static auto schedule() {  // the warm-up is Goyal's
    return warmup{
        5,
        linear_scaled{multistep{.learning_rate = 0.1, .milestones = {60, 80}}, 256, figures.batch},
        {0.1}};
  }
  template <class C>
  static auto reducer(const C& comm) {
    return ring{comm};  // ours
  }
};

/// Calls f(recipe) for each.
template <class F>
void for_each_recipe(const F& f) {
  f(he{});
  f(goyal{});
  f(you<90>{});
  f(you<64>{});
  f(akiba{});
  f(jia{});
  f(ying{});
  f(mikami{});
  f(yamazaki{});
}

}  // namespace recipes
