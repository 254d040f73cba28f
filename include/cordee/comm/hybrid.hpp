// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One reducer for short messages, another for long ones (Jia et al. 2018):
// hybrid{butterfly{link}, ring{link}}.
//
//   x <- small's mean of up to `limit` numbers, large's of more
//
// Few steps win where latency does, few bytes where bandwidth does; where they meet is the
// machine's business, so measure it.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Small, class Large>
struct hybrid {
  using link_type = typename Small::link_type;
  static constexpr agreement offers = std::min(Small::offers, Large::offers);
  static constexpr bool lossless = Small::lossless && Large::lossless;
  static constexpr int slots = 0;
  static_assert(std::same_as<link_type, typename Large::link_type>,
                "hybrid: both reducers must work over the same link");
  static_assert(Small::slots == 0 && Large::slots == 0,
                "hybrid: neither reducer may have a memory of its own, for a message has but one "
                "range of it; make the whole hybrid narrow, narrow{hybrid{...}, P{}}");

  Small small;
  Large large;
  std::size_t limit = 1u << 14;  // numbers
  link_type link = small.link;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n <= limit ? small.template scratch<Real>(n) : large.template scratch<Real>(n);
  }
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return n <= limit ? small.template scratch_as<P>(n) : large.template scratch_as<P>(n);
  }

  template <class Real, Device D>
    requires ReducerOn<Small, Real, D> && ReducerOn<Large, Real, D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    if (m.what.size <= limit)
      small.mix(m, now, s);
    else
      large.mix(m, now, s);
  }
  template <Precision P, class Real, Device D>
    requires NarrowsOn<Small, P, Real, D> && NarrowsOn<Large, P, Real, D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment& now,
              typename D::stream s) const {
    if (m.what.size <= limit)
      small.template mix_as<P>(m, lost, now, s);
    else
      large.template mix_as<P>(m, lost, now, s);
  }

  [[nodiscard]] std::string describe() const {
    return text("up to ", limit, " numbers ", small.describe(), "; beyond, ", large.describe());
  }
};
template <class Small, class Large>
hybrid(Small, Large) -> hybrid<Small, Large>;
template <class Small, class Large>
hybrid(Small, Large, std::size_t) -> hybrid<Small, Large>;

}  // namespace cordee::inline CORDEE_ABI
