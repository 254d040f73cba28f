// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The reducer of one rank: W is the 1 x 1 identity, and nothing is exchanged.
#pragma once

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/transports/self_comm.hpp>

namespace cordee::inline CORDEE_ABI {

/// The reducer of a run of one rank.
struct solo {
  using communicator_type = self_comm;                   ///< See ReducerOn.
  static constexpr agreement offers = agreement::exact;  ///< A single rank agrees with itself.
  static constexpr bool lossless = true;                 ///< See ReducerOn.
  static constexpr int slots = 0;                        ///< See ReducerOn.
  static constexpr bool capturable = true;  ///< As for optimizers (optim/optimizer.hpp).

  self_comm comm{};  ///< See ReducerOn.

  /// 0: needs no scratch.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  /// Does nothing.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}

  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "solo: one rank, nothing is exchanged"; }
};

}  // namespace cordee::inline CORDEE_ABI
