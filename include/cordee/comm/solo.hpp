// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One worker: W is the 1 x 1 identity, and nothing is exchanged.
#pragma once

#include <cstring>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// The transport of a rank that has no peers. It may write to itself.
struct alone {
  static constexpr bool blocks_host = false;

  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] alone lane(int) const { return {}; }

  template <class Real, Device D>
  void mean(span_on<Real, D>, typename D::stream) const {}

  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    expects(out.size() == in.size(), "alone: every message to oneself must be received");
    for (std::size_t i = 0; i < out.size(); ++i) {
      expects(out[i].peer == 0 && in[i].peer == 0, "alone: there is no rank but 0");
      expects(out[i].bytes.size == in[i].bytes.size, "alone: a message of another size");
      D{}.copy(in[i].bytes.data, out[i].bytes.data, in[i].bytes.size, s);
    }
  }
};

struct solo {
  using link_type = alone;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;
  static constexpr bool replays = true;  // as rules say it (optim/optimizer.hpp)

  alone link{};

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0>, const moment&, typename D::stream) const {}

  [[nodiscard]] std::string describe() const { return "solo: one worker, nothing is exchanged"; }
};

}  // namespace cordee::inline CORDEE_ABI
