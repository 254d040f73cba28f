// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded optimizer state: each rank updates only its part of the weights. "Weight-update sharding"
// of TPU pods (Xu et al. 2020), ZeRO-1 (Rajbhandari et al. 2020): sharded{ring{comm}}.
//
//   g <- the mean over ranks, of only this rank's range of each bucket       reduce-scatter
//   slots, w <- the optimizer's step on that range                           1/p of the update
//   w <- every rank's range                                                  all-gather
//
// The two halves are those of the reducer inside, with its messages. A rank's range of a bucket is
// the chunk whose mean the reducer computes there, cut at multiples of 64 numbers; slots cover only
// these ranges. Norms of segments, and the test for NaN, are sums over ranks in one small message.
// train/step/shard.hpp implements the step.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Its halves divide a vector among all ranks, or among as many of them as it has chunks.
template <class R>
concept Shardable = requires { requires R::can_shard; };

/// It has halves of its own, and no chunks that travel.
template <class R>
concept HasHalves = requires(const R r, std::size_t n) {
  { r.own_range(n) } -> std::same_as<number_range>;
};

/// Runs a method without messages, and keeps which chunks this rank divides.
struct range_wire {
  int chunks;
  chunk_range* own;

  [[nodiscard]] int count() const { return chunks; }
  void add(int, chunk_range, int, chunk_range, int = 1) {}
  void average(chunk_range range, int, int = 1) { *own = range; }
  void pass(int, chunk_range, int, chunk_range) {}
  void flush() {}
};

/// One half of a method: the hops that add, or those that pass means on.
template <bool Gathers, class Communicator, class Real, Device D>
struct half_wire {
  plain_wire<Communicator, Real, D, shard_unit> wire;

  [[nodiscard]] int count() const { return wire.count(); }
  void add(int next, chunk_range sent, int previous, chunk_range sum, int ranks = 1) {
    if constexpr (!Gathers) wire.add(next, sent, previous, sum, ranks);
  }
  void average(chunk_range own, int ranks, int holders = 1) {
    if constexpr (!Gathers) wire.average(own, ranks, holders);
  }
  void pass(int next, chunk_range sent, int previous, chunk_range target) {
    if constexpr (Gathers) wire.pass(next, sent, previous, target);
  }
  void flush() { wire.flush(); }
};

}  // namespace detail::comm

/// Shards the update: each rank keeps and updates its part of the reducer's mean.
template <class R>
struct sharded {
  using communicator_type = typename R::communicator_type;  ///< See ReducerOn.
  /// The exact mean: each rank steps on its range, then all weights are gathered on all ranks.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;       ///< The wire keeps every bit.
  static constexpr int slots = 0;              ///< No memory of the reducer outlives a step.
  static constexpr bool shards_update = true;  ///< Ranks hold parts of the optimizer's slots.
  static_assert(detail::comm::Shardable<R>,
                "sharded: the reducer inside has no reduce-scatter that leaves each rank its part "
                "of an exact mean: use ring, torus_ring, halving_doubling or two_shot, native over "
                "a transport that has the halves (threads, nccl), or a hybrid of such reducers; "
                "for hierarchical use torus_ring with a row for each node. Wires that round "
                "(compressed), gossip and servers have none, and in a tree rank 0 would own "
                "everything");

  R reducer;  ///< The reducer inside: one with `can_shard`; others do not compile.
  /// Whether to shard the master weights, too: the gradients replace the weights from backward to
  /// the end of a step. Range: false for models that read the weight plane in a pass and with
  /// frozen layers, else usage_error.
  bool masters = false;
  communicator_type comm = reducer.comm;  ///< State: the communicator of `reducer`.

  /// As the reducer inside, for chunks of whole units.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const auto p = static_cast<std::size_t>(comm.size());
    return reducer.template scratch<Real>(n + p * detail::comm::shard_unit);
  }
  /// The numbers of an n-number message, a multiple of 64, whose mean this rank holds after mix().
  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const {
    if (comm.size() == 1) return {0, n};
    if constexpr (detail::comm::HasHalves<R>) {
      return reducer.own_range(n);
    } else {
      const int count = reducer.chunks(n);
      chunk_range own{0, 0};
      reducer.run(detail::comm::range_wire{count, &own});
      constexpr std::size_t unit = detail::comm::shard_unit;
      return {detail::comm::chunk_start(n / unit, own.first, count) * unit,
              detail::comm::chunk_start(n / unit, own.last, count) * unit};
    }
  }
  /// This rank's range <- the mean. The other numbers are partial sums.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    if (comm.size() == 1) return;
    if constexpr (detail::comm::HasHalves<R>)
      reducer.reduce_scatter(m, s);
    else
      run_half<false, Real, D>(m.values, m.scratch, s);
  }
  /// x <- each rank's range of it.
  template <class Real, Device D>
  void gather(span_on<Real, D> x, typename D::stream s) const {
    if (comm.size() == 1) return;
    if constexpr (detail::comm::HasHalves<R>)
      reducer.all_gather(x, s);
    else
      run_half<true, Real, D>(x, {}, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(reducer), "; optimizer state ",
                  masters ? "and master weights " : "", "sharded over ", comm.size(), " ranks");
  }

 private:
  template <bool Gathers, class Real, Device D>
  void run_half(span_on<Real, D> x, span_on<std::byte, D> scratch, typename D::stream s) const {
    const int count = reducer.chunks(x.size);
    reducer.run(detail::comm::half_wire<Gathers, communicator_type, Real, D>{
        {reducer.comm, x, scratch, count, s}});
  }
};
template <class R>
sharded(R) -> sharded<R>;
template <class R>
sharded(R, bool) -> sharded<R>;

}  // namespace cordee::inline CORDEE_ABI
