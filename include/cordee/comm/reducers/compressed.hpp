// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer whose every hop is encoded in a narrower precision P, with error feedback (Seide et al.
// 2014): compressed{ring{comm}, fp16{}}, or bf16{}, or int8{}.
//
//   x <- x + e;  e <- what this rank's encodings lose on the way, in units of x;  x <- mean of x
//
// The error is sent with the next gradient, so over many steps the means add up. A rank encodes
// each of its numbers once, on the hop that sends its partial sum or as the mean that it owns (in a
// butterfly, in each step), and all ranks end with the same bits (encoded_wire.hpp). Sums are
// computed in the numbers' own precision. Rounding is harmless in a gradient, but larger than the
// differences between the ranks' weights: hence `lossless` is false. A skipped step clears e, since
// NaN and infinity would otherwise stay in it.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {
/// x <- x + e, e <- 0
template <class Real>
struct add_residual_op {
  Real *x, *e;
  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    x[i] += e[i];
    e[i] = 0;
  }
};
}  // namespace detail::comm

/// A reducer whose hops are encoded in precision P, with error feedback.
template <class R, Precision P>
struct compressed {
  using communicator_type = typename R::communicator_type;  ///< See ReducerOn.
  static constexpr agreement offers = R::offers;            ///< As the reducer inside.
  static constexpr bool lossless = false;                   ///< Every hop rounds.
  static constexpr int slots = 1;                           ///< The residual e.
  static constexpr bool residual_slots = true;              ///< The next vector is sent with e.
  /// As the reducer inside.
  static constexpr bool single_message = detail::comm::SingleMessage<R>;
  static_assert(R::slots == 0, "compressed: the reducer inside must have no slots");
  static_assert(
      R::slots != 0 || requires(const R r) { r.template scratch_as<P>(std::size_t{}); },
      "compressed: the reducer inside has no hops that could be encoded: use one that is made of "
      "point-to-point messages, such as ring, halving_doubling, tree, double_tree or hierarchical");

  /// The reducer inside: one made of point-to-point messages, without slots; others do not compile.
  R reducer;
  P precision{};                          ///< Format of the numbers sent; only its type matters.
  communicator_type comm = reducer.comm;  ///< State: the communicator of `reducer`.

  /// Scratch for two encoded messages, one sent and one received.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return reducer.template scratch_as<P>(n);
  }

  /// Adds e to the vector, then runs the reducer with every hop in P, which rewrites e.
  template <class Real, Device D>
    requires detail::comm::CompressibleOn<R, P, Real, D>
  void mix(bucket_view<Real, D, 1> m, const step_info& info, typename D::stream s) const {
    const span_on<Real, D> lost = m.slots[0];
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    for_each(s, m.values.size, detail::comm::add_residual_op<Real>{m.values.data, lost.data});
    reducer.template mix_as<P>(bucket_view<Real, D, 0>{m.layout, m.values, {}, m.scratch}, lost,
                               info, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(reducer.describe(), ", every hop in ", P::name, " with error feedback");
  }
};
template <class R, class P>
compressed(R, P) -> compressed<R, P>;

}  // namespace cordee::inline CORDEE_ABI
