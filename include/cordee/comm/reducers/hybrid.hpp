// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One reducer for short messages, another for long ones (Jia et al. 2018):
// hybrid{one_shot{comm}, two_shot{comm}}, hybrid{butterfly{comm}, ring{comm}, 4096}.
//
//   x <- mean of x, by `small` for up to `threshold` numbers, by `large` for more
//
// Fewer steps win where latency dominates, fewer bytes where bandwidth does; the break-even length
// depends on the machine, so measure it. `sharded` accepts it if both reducers have halves:
// hybrid{two_shot{comm}, ring{comm}}.
#pragma once

#include <concepts>
#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// Chooses one of two reducers by the length of the message.
template <class Small, class Large>
struct hybrid {
  using communicator_type = typename Small::communicator_type;  ///< See ReducerOn.
  /// The weaker of the two.
  static constexpr agreement offers = std::min(Small::offers, Large::offers);
  static constexpr bool lossless = Small::lossless && Large::lossless;  ///< If both are.
  static constexpr int slots = 0;                                       ///< See ReducerOn.
  /// Whether either reducer needs a single message: all numbers of a step then have one length.
  static constexpr bool single_message =
      detail::comm::SingleMessage<Small> || detail::comm::SingleMessage<Large>;
  /// If both reducers have halves: the length of a bucket chooses its ranges, too.
  static constexpr bool can_shard =
      detail::comm::Shardable<Small> && detail::comm::Shardable<Large>;
  static_assert(std::same_as<communicator_type, typename Large::communicator_type>,
                "hybrid: both reducers must have communicators of the same type");
  static_assert(Small::slots == 0 && Large::slots == 0,
                "hybrid: neither reducer may have slots, which it would share with the other; "
                "compress the whole hybrid, compressed{hybrid{...}, P{}}");

  Small small;  ///< Reducer of short messages.
  Large large;  ///< Reducer of long messages.
  /// Longest message that `small` reduces; 0: none. Unit: numbers. Range: any, the same on every
  /// rank.
  std::size_t threshold = 1u << 14;
  communicator_type comm = small.comm;  ///< State: the communicator of `small`.

  /// Scratch that suffices for any message of up to n numbers.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    if (n <= threshold) return small.template scratch<Real>(n);
    // `sharded` asks for more numbers than it sends, since its chunks are of whole units.
    const std::size_t more =
        can_shard ? static_cast<std::size_t>(comm.size()) * detail::comm::shard_unit : 0;
    return std::max(small.template scratch<Real>(std::min(n, threshold + more)),
                    large.template scratch<Real>(n));
  }
  /// As the reducer chosen for that length.
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return n <= threshold ? small.template scratch_as<P>(n) : large.template scratch_as<P>(n);
  }

  /// Runs the reducer chosen for the bucket's length.
  template <class Real, Device D>
    requires ReducerOn<Small, Real, D> && ReducerOn<Large, Real, D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    if (m.values.size <= threshold)
      small.mix(m, info, s);
    else
      large.mix(m, info, s);
  }
  /// The numbers of a message of n that are this rank's, by the reducer of that length.
  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const
    requires can_shard
  {
    return n <= threshold ? sharded<Small>{small}.own_range(n) : sharded<Large>{large}.own_range(n);
  }
  /// This rank's range <- the mean.
  template <class Real, Device D>
    requires can_shard
  void reduce_scatter(bucket_view<Real, D, 0> m, typename D::stream s) const {
    if (m.values.size <= threshold)
      sharded<Small>{small}.mix(m, step_info{}, s);
    else
      sharded<Large>{large}.mix(m, step_info{}, s);
  }
  /// x <- every rank's range of it.
  template <class Real, Device D>
    requires can_shard
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    if (x.size <= threshold)
      sharded<Small>{small}.gather(x, s);
    else
      sharded<Large>{large}.gather(x, s);
  }
  /// See exact_method. Requires it of both reducers.
  template <Precision P, class Real, Device D>
    requires detail::comm::CompressibleOn<Small, P, Real, D> &&
             detail::comm::CompressibleOn<Large, P, Real, D>
  void mix_as(bucket_view<Real, D, 0> m, span_on<Real, D> lost, const step_info& info,
              typename D::stream s) const {
    if (m.values.size <= threshold)
      small.template mix_as<P>(m, lost, info, s);
    else
      large.template mix_as<P>(m, lost, info, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("up to ", threshold, " numbers ", small.describe(), "; beyond, ",
                  large.describe());
  }
};
template <class Small, class Large>
hybrid(Small, Large) -> hybrid<Small, Large>;
template <class Small, class Large>
hybrid(Small, Large, std::size_t) -> hybrid<Small, Large>;

}  // namespace cordee::inline CORDEE_ABI
