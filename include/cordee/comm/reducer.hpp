// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer is one multiplication of a distributed vector by a mixing matrix: what <- W what.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include <cordee/comm/transport.hpp>
#include <cordee/core/protocol.hpp>

namespace cordee::inline CORDEE_ABI {

/// A constant value that multiplies. It is written as if synchronous: overlap belongs to the
/// trainer's courier. Memory that must outlive a step (error feedback, last seen weights) is asked
/// for as `slots` and arrives with the message; `scratch` says the bytes it wants meanwhile.
/// `offers` is what the ranks are left with; `lossless` says that the wire keeps every bit. A mean
/// is divided by the number of ranks exactly once.
template <class R, class Real, class D>
concept ReducerOn = std::copyable<R> && TransportOn<typename R::link_type, D> &&
                    requires(const R r, message<Real, D, R::slots> m, moment now,
                             typename D::stream s, std::size_t n) {
                      { R::offers } -> std::convertible_to<agreement>;
                      { R::lossless } -> std::convertible_to<bool>;
                      { R::slots } -> std::convertible_to<int>;
                      { r.link } -> std::convertible_to<const typename R::link_type&>;
                      { r.template scratch<Real>(n) } -> std::same_as<std::size_t>;
                      { r.mix(m, now, s) } -> std::same_as<void>;
                    };

/// A reducer that is told the first weights, by all ranks together, before it mixes (a server).
template <class R, class Real, class D>
concept BeginsOn = ReducerOn<R, Real, D> &&
                   requires(const R r, message<Real, D, R::slots> m, typename D::stream s) {
                     { r.begin(m, s) } -> std::same_as<void>;
                   };

/// The longest message for a reducer: whole ones if it wants all numbers of a step in one.
template <class R>
constexpr std::size_t message_limit(std::size_t bytes) {
  return requires { requires R::whole; } ? ~std::size_t{0} : bytes;
}

/// Bytes of scratch that serve each of these messages, one at a time.
template <class Real, class R>
std::size_t largest_scratch(const R& reducer, std::span<const bucket> buckets) {
  std::size_t bytes = 0;
  for (const bucket& b : buckets) bytes = std::max(bytes, reducer.template scratch<Real>(b.size));
  return bytes;
}

/// The same mean with every hop encoded in P; `lost` gathers what this rank's encodings lost, in
/// units of its own numbers, so that adding it to the next ones makes up for it.
template <class R, class P, class Real, class D>
concept NarrowsOn =
    ReducerOn<R, Real, D> && requires(const R r, message<Real, D, R::slots> m, moment now,
                                      span_on<Real, D> lost, typename D::stream s, std::size_t n) {
      { r.template scratch_as<P>(n) } -> std::same_as<std::size_t>;
      { r.template mix_as<P>(m, lost, now, s) } -> std::same_as<void>;
    };

/// A reducer that hears some ranks alone, and can say which: those whose numbers this rank has when
/// it has mixed.
template <class R>
concept Hears = requires(const R r, moment now) {
  { r.hears(now) } -> std::same_as<std::vector<int>>;
};

/// A reducer that can say how much the ranks' disagreement grows in a round, once the loss is flat,
/// under a rule that moves it so; NaN where it cannot tell.
template <class R>
concept Gossips = requires(const R r, consensus c) {
  { r.radius(c) } -> std::convertible_to<double>;
};

}  // namespace cordee::inline CORDEE_ABI
