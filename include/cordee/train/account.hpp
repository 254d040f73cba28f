// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The record of a step, where its gradients are: what the step is told, and what it finds out
// before the host knows.
//
//   looked at: squares of some segments;   grad_square += their sum, where it is finite
//   elsewhere the bucket is spoilt: counted, and the rule of skipped steps says what that means
//
// On a GPU these are numbers that kernels write and read: whether a step is made is decided there,
// and the host learns of it when it has handed over all there is to do. Nothing that differs from
// step to step is carried by any launch but the first one, which opens the account: so the others
// can be recorded once and replayed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/train/loss_scale.hpp>

namespace cordee::inline CORDEE_ABI {

struct account {
  moment now{};             // rates and counters
  loss_scale scale{};       // of the step; once it has been looked at, of the next one
  float unscale = 1;        // what its gradients are multiplied by
  double grad_square = 0;   // squared norm of what was looked at
  std::int32_t spoils = 0;  // how often a look found what is not finite
  std::int32_t spoilt = 0;  // whether the last look did
};

namespace detail {

/// A step begins, and nothing is known of it.
struct opens_account {
  moment now;
  account* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    to->now = now;
    to->grad_square = 0;
    to->spoils = to->spoilt = 0;
  }
};

/// One look: `n` squared norms. Where all is lost with one that is not finite, the sum says so too.
struct tallies {
  const double* squares;
  std::size_t n;
  bool all_or_nothing;
  account* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum += squares[k];
    const bool finite = std::isfinite(sum);
    to->spoilt = finite ? 0 : 1;
    to->spoils += to->spoilt;
    if (finite || all_or_nothing) to->grad_square += sum;
  }
};

/// The next step's scale, when all looks have been made.
struct rescales {
  loss_scaling by;
  account* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    to->scale.update(by, to->spoils == 0);
    to->unscale = to->scale.inverse();
  }
};

/// to <- from, or zero, where the flag is raised
template <class T>
struct replaces {
  const std::int32_t* flag;
  const T* from;
  T* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    if (*flag != 0) to[i] = from == nullptr ? T{} : from[i];
  }
};

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
