// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer multiplies a distributed vector by a mixing matrix W: x <- W x.
//
//   required
//     communicator_type, comm       the communicator's type, and the communicator
//     offers                        agreement: what the ranks hold after mix()
//     lossless                      whether the wire keeps every bit
//     slots                         planes of memory that outlive a step
//     scratch<Real>(n)              bytes of scratch for a message of n numbers, or of fewer
//     mix(m, info, s)               m.values <- W m.values
//   optional, read if declared
//     single_message   (false)      all numbers of a step are sent in one message
//     capturable       (false)      mix() may be recorded in a CUDA graph
//     can_shard        (false)      run(), or own_range, reduce_scatter and all_gather, have halves
//                                   that leave each rank its part of the mean: sharded{reducer}
//     residual_slots   (false)      slots are added to the next vector (error feedback), so that
//                                   ranks may take the mean of theirs: another number resumes
//     describe()                    one phrase, for describe(trainer)
//     check(segments)               throws usage_error for a table of tensors that it cannot mix;
//                                   called when a trainer is constructed
//     enqueue(m, info, s)           mix() as work of the stream s, which may be captured in a CUDA
//                                   graph: the host does not wait for the device
//     initialize(m, s)              collective; called once, before the first mix()
//     sources(info)                 the ranks whose numbers this one holds after mix()
//     spectral_radius(form)         growth of the ranks' disagreement in a round
//     remedies(form)                phrases: what would bring that growth below 1
//     state<Real>(), restore<Real>(state)   state on this rank besides the slots (reducer_state)
//     scratch_as<P>(n), mix_as<P>(m, lost, info, s)    the same with every hop encoded in P
//
// `reducer_base` has the defaults; `exact_method` (exact_method.hpp) makes a reducer from a
// schedule of hops. A trainer checks each member (reducer_check.hpp); a reducer's test is
// CHECK(reducer_laws(make) == "") of testing/reducer_laws.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/external_memory.hpp>

namespace cordee::inline CORDEE_ABI {

/// A constant value, with the members at the header's top. mix() is written as if it were
/// synchronous: the courier overlaps it with backward. Memory that must outlive a step (error
/// feedback, last received weights) is declared as `slots` and arrives with the message. A mean is
/// divided by the number of ranks exactly once.
template <class R, class Real, class D>
concept ReducerOn = std::copyable<R> && TransportOn<typename R::communicator_type, D> &&
                    requires(const R r, bucket_view<Real, D, R::slots> m, step_info info,
                             typename D::stream s, std::size_t n) {
                      { R::offers } -> std::convertible_to<agreement>;
                      { R::lossless } -> std::convertible_to<bool>;
                      { R::slots } -> std::convertible_to<int>;
                      { r.comm } -> std::convertible_to<const typename R::communicator_type&>;
                      { r.template scratch<Real>(n) } -> std::same_as<std::size_t>;
                      { r.mix(m, info, s) } -> std::same_as<void>;
                    };

/// Base of a reducer that is an aggregate, my_reducer{comm}: a derived reducer declares what
/// differs.
template <class Communicator>
struct reducer_base {
  /// See ReducerOn, as for all members.
  using communicator_type = Communicator;
  static constexpr bool lossless = true;  ///< The wire keeps every bit.
  static constexpr int slots = 0;         ///< No memory outlives a step.
  /// The reducer has none of the optional properties at the header's top.
  static constexpr bool single_message = false, capturable = false, residual_slots = false;

  Communicator comm;  ///< The ranks that mix.
};

/// State of a reducer on this rank besides its slots, such as an asynchronous server's weights.
struct reducer_state {
  std::vector<double> numbers;         ///< Such as weights; a double holds the bits of a float.
  std::vector<std::int64_t> counters;  ///< Such as versions.
  bool operator==(const reducer_state&) const = default;
};

namespace detail::comm {

/// A reducer with memory beside its slots. Both members require that no rank is in a mix().
template <class R, class Real>
concept HasReducerState = requires(const R r, const reducer_state state) {
  { r.template state<Real>() } -> std::same_as<reducer_state>;
  { r.template restore<Real>(state) } -> std::same_as<void>;
};

/// A reducer that takes the first weights before it mixes (an asynchronous server); collective.
template <class R, class Real, class D>
concept InitializableOn =
    ReducerOn<R, Real, D> &&
    requires(const R r, bucket_view<Real, D, R::slots> m, typename D::stream s) {
      { r.initialize(m, s) } -> std::same_as<void>;
    };

/// A reducer whose exchange is work of a stream; its communicator's await_enqueued is how the host
/// waits for the device behind it.
template <class R, class Real, class D>
concept EnqueuableOn =
    ReducerOn<R, Real, D> &&
    requires(const R r, bucket_view<Real, D, R::slots> m, step_info info, typename D::stream s) {
      { r.enqueue(m, info, s) } -> std::same_as<void>;
    };

/// The same mean with every hop encoded in P. `lost` accumulates what this rank's encodings lost,
/// in units of its own contribution: added to the next one, it is made up for.
template <class R, class P, class Real, class D>
concept CompressibleOn =
    ReducerOn<R, Real, D> && requires(const R r, bucket_view<Real, D, R::slots> m, step_info info,
                                      span_on<Real, D> lost, typename D::stream s, std::size_t n) {
      { r.template scratch_as<P>(n) } -> std::same_as<std::size_t>;
      { r.template mix_as<P>(m, lost, info, s) } -> std::same_as<void>;
    };

/// A reducer that receives from some ranks only: those whose numbers this rank holds after mix().
template <class R>
concept HasSources = requires(const R r, step_info info) {
  { r.sources(info) } -> std::convertible_to<std::vector<int>>;
};

/// A reducer that has the growth of the ranks' disagreement in a round, where the loss is flat,
/// under an optimizer of this momentum; NaN where it is unknown.
template <class R>
concept HasSpectralRadius = requires(const R r, momentum_form form) {
  { r.spectral_radius(form) } -> std::convertible_to<double>;
};

template <class R>
concept HasResidualSlots = requires { requires static_cast<bool>(R::residual_slots); };
/// Ranks hold parts of the optimizer's slots (sharded.hpp).
template <class R>
concept ShardsUpdate = requires { requires static_cast<bool>(R::shards_update); };
/// Master weights, too.
template <class R>
constexpr bool shards_masters(const R& reducer) {
  if constexpr (ShardsUpdate<R>)
    return reducer.masters;
  else
    return false;
}
template <class R>
concept SingleMessage = requires { requires static_cast<bool>(R::single_message); };

/// Bytes of the longest message of a reducer, where buckets have `bytes` at most.
template <class R>
constexpr std::size_t message_limit(std::size_t bytes) {
  return SingleMessage<R> ? ~std::size_t{0} : bytes;
}

/// Memory of n numbers for what R mixes step after step, where that is a collective of its
/// transport's, in place, and the transport has memory for it; else null. What other reducers send
/// is not received into the same memory, and NCCL wants both sides registered, or none.
template <class Real, class R, Device D>
[[gnu::cold]] device::external_memory allocate_registered(const R& reducer, const D& device,
                                                          std::size_t n) {
  if constexpr (EnqueuableOn<R, Real, D> && AllocatesRegisteredOn<typename R::communicator_type, D>)
    return reducer.comm.allocate_registered(device, n * sizeof(Real));
  else
    return nullptr;
}

/// Bytes of scratch that suffice for each of these buckets, one at a time.
template <class Real, class R>
std::size_t largest_scratch(const R& reducer, std::span<const bucket> buckets) {
  std::size_t bytes = 0;
  for (const bucket& b : buckets) bytes = std::max(bytes, reducer.template scratch<Real>(b.size));
  return bytes;
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
