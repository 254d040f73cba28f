// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The quadratic model of quadratic.hpp as a function of a user's: a custom_model on T4.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/custom_model.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

namespace support {

/// The distance of a rank's centers from T4's.
using shift = double;

inline parameter_list t4_list() {
  parameter_list list;
  for (const segment& s : t4_table) list.add(std::string(s.name), {std::int64_t(s.size)}, s.kind);
  return list;
}

/// In which order a pass calls ready.
enum class calls { ascending, descending, mixed, none };

template <class P>
struct quadratic_pass {
  calls order = calls::mixed;

  /// What quadratic<P> computes, in the same order.
  metrics operator()(shift own, model_pass<typename P::master, cpu>& pass) const {
    using Real = typename P::master;
    if (!pass.trains())
      return {.loss = double(pass.weights("W1")[0]), .count = pass.update().count};
    const double weight = pass.loss_weight() * pass.update().count;
    for (std::size_t k = 0; k < t4_center.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        pass.gradient(k)[i] += static_cast<Real>(
            weight * t4_curvature[k][i] * (double(pass.weights(k)[i]) - (t4_center[k][i] + own)));
    pass.weights("seen")[0] += 1;
    std::array<std::size_t, 4> all{0, 1, 2, 3};
    if (order == calls::descending) std::reverse(all.begin(), all.end());
    if (order == calls::mixed) all = {2, 0, 3, 1};
    if (order != calls::none)
      for (const std::size_t k : all) pass.ready(k);
    return {.loss = 1, .count = pass.update().count};
  }
};

template <class P>
custom_model<shift, P> quadratic_model_of(calls order = calls::mixed) {
  using Real = typename P::master;
  return {t4_list(), quadratic_pass<P>{order}, cpu{1},
          [](const segment& s, span_on<Real, cpu> to, std::uint64_t) {
            for (std::size_t k = 0; k < t4_start.size(); ++k)
              if (t4_table[k].name == s.name)
                for (std::size_t i = 0; i < s.size; ++i) to[i] = static_cast<Real>(t4_start[k][i]);
          }};
}

inline shift shift_of(int rank, int ranks) { return 0.25 * (rank - 0.5 * (ranks - 1)); }

struct fixed_rate {
  double operator()(double) const { return 0.1; }
};

/// The weights by rank after five steps, of the library's own model and of the function.
template <class O, class Make>
void check_same_bits(const char* name, const O& optimizer, const Make& make) {
  INFO(name);
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const trainer_options options{.bucket_bytes = 512};
    const auto expected = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = shift_of(comm.rank(), ranks)};
      trainer run{model, optimizer, fixed_rate{}, make(comm), options};
      for (int k = 0; k < 5; ++k) run.step(std::array{one_each(ranks)}, k);
      return copy(run.weights());
    });
    for (const calls order : {calls::ascending, calls::descending, calls::mixed, calls::none}) {
      const auto found = on_ranks(ranks, [&](threads comm) {
        auto model = quadratic_model_of<fp64>(order);
        trainer run{model, optimizer, fixed_rate{}, make(comm), options};
        for (int k = 0; k < 5; ++k) run.step(shift_of(comm.rank(), ranks), 1, k);
        return copy(run.weights());
      });
      for (std::size_t r = 0; r < found.size(); ++r) CHECK(same_bits(found[r], expected[r]));
    }
  }
}

}  // namespace support
