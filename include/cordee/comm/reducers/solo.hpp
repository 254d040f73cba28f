// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The reducer of one worker: W is the 1 x 1 identity, and nothing is exchanged.
#pragma once

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/transports/self_comm.hpp>

namespace cordee::inline CORDEE_ABI {

struct solo {
  using communicator_type = self_comm;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;
  static constexpr bool capturable = true;  // as of optimizers (optim/optimizer.hpp)

  self_comm comm{};

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}

  [[nodiscard]] std::string describe() const { return "solo: one worker, nothing is exchanged"; }
};

}  // namespace cordee::inline CORDEE_ABI
