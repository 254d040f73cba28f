// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An exact mean during warm-up, then a compressed one: two_stage{ring{comm}, gathered{comm,
// scaled_sign{}}, 5}, as in 1-bit Adam (Tang et al. 2021) and in PyTorch's PowerSGD hook.
//
//   x <- warmup(x) before epoch `start_epoch`, compressed(x) from there on
//
// The slots are those of `compressed`; its residual is zero during warm-up. zero_one_adam chooses
// itself which steps are exact (bucket_view::exact); with it start_epoch is 0.
#pragma once

#include <concepts>
#include <span>
#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

/// Chooses one of two reducers by the epoch.
template <class Warmup, class Compressed>
struct two_stage {
  using communicator_type = typename Warmup::communicator_type;  ///< See ReducerOn.
  static constexpr agreement offers = agreement::exact;          ///< As both.
  static constexpr bool lossless = false;                        ///< The second stage is lossy.
  static constexpr int slots = Compressed::slots;                ///< Those of the second stage.
  /// As the second stage.
  static constexpr bool residual_slots = detail::comm::HasResidualSlots<Compressed>;
  /// Whether either reducer needs a single message.
  static constexpr bool single_message =
      detail::comm::SingleMessage<Warmup> || detail::comm::SingleMessage<Compressed>;
  static_assert(Warmup::slots == 0 && Warmup::lossless && Warmup::offers == agreement::exact &&
                    !detail::comm::ShardsUpdate<Warmup>,
                "two_stage: the first reducer is an exact one, such as ring");
  static_assert(Compressed::offers == agreement::exact && !detail::comm::ShardsUpdate<Compressed>,
                "two_stage: the second reducer leaves all ranks the same vector, such as gathered, "
                "power_sgd or compressed over ring");
  static_assert(std::same_as<communicator_type, typename Compressed::communicator_type>,
                "two_stage: both reducers must have communicators of the same type");

  Warmup warmup;          ///< The reducer of the warm-up: an exact one; others do not compile.
  Compressed compressed;  ///< The reducer from `start_epoch` on.
  /// Epoch at which the warm-up ends. Unit: epochs. Range: finite, 0 or more, else usage_error.
  double start_epoch = 1;
  communicator_type comm = warmup.comm;  ///< State: the communicator of `warmup`.

  /// Scratch that suffices for both.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return std::max(warmup.template scratch<Real>(n), compressed.template scratch<Real>(n));
  }
  /// @throws usage_error for an epoch outside its range, and as `compressed`.
  void check(std::span<const segment> table) const {
    detail::core::expects_not_negative("two_stage", "start_epoch", start_epoch);
    if constexpr (requires { compressed.check(table); }) compressed.check(table);
  }

  /// Runs the reducer of the current epoch; of what must be exact, that of the warm-up.
  template <class Real, Device D>
    requires ReducerOn<Warmup, Real, D> && ReducerOn<Compressed, Real, D>
  void mix(bucket_view<Real, D, slots> m, const step_info& info, typename D::stream s) const {
    if (m.exact || info.epoch < start_epoch)
      warmup.mix(bucket_view<Real, D, 0>{m.layout, m.values, {}, m.scratch}, info, s);
    else
      compressed.mix(m, info, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(warmup), "; from epoch ", start_epoch, " ",
                  detail::core::describe_policy(compressed));
  }
};
template <class Warmup, class Compressed>
two_stage(Warmup, Compressed) -> two_stage<Warmup, Compressed>;
template <class Warmup, class Compressed>
two_stage(Warmup, Compressed, double) -> two_stage<Warmup, Compressed>;

}  // namespace cordee::inline CORDEE_ABI
