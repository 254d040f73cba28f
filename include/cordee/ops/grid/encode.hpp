// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers that travel in a narrower precision P, as grids (comm/encoded_wire.hpp): the largest of
// every chunk, the scale that fits all, and then each number alone. So the host never reads a
// scale.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/protocol.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/largest.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// store(chunk, the largest of load(i) in it); each thread begins with nothing, 0.
template <class Load, class Store>
struct largest_by_chunk {
  static constexpr int threads = 256;
  static constexpr std::size_t chunk = 64 * threads;
  std::size_t n;
  Load load;
  Store store;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t first = b.index() * chunk, last = std::min(first + chunk, n);
    double most = 0;
    for (std::size_t i = first + static_cast<std::size_t>(b.thread()); i < last; i += threads)
      if (load(i) > most) most = load(i);
    most = largest_of<threads>(b, most);
    if (b.thread() == 0) store(b.index(), most);
  }
};

/// |x| as the bits of a float, which what is not finite makes larger than all that is.
template <class Real>
struct magnitude_bits {
  const Real* x;
  CORDEE_DEVICE double operator()(std::size_t i) const {
    return std::bit_cast<std::uint32_t>(static_cast<float>(x[i])) & 0x7fffffffu;
  }
};
struct partial_bits {
  double* of;
  CORDEE_DEVICE double operator()(std::size_t i) const { return of[i]; }
  CORDEE_DEVICE void operator()(std::size_t chunk, double most) const { of[chunk] = most; }
};
/// *to <- the scale that fits them
template <class P>
struct fitted {
  typename P::scaling* to;
  CORDEE_DEVICE void operator()(std::size_t, double most) const {
    *to = P::fit(std::bit_cast<float>(static_cast<std::uint32_t>(most)));
  }
};

/// What stands at k, or the scaling that says nothing.
template <class P>
CORDEE_DEVICE typename P::scaling scaling_at(const typename P::scaling* k) {
  if constexpr (std::is_empty_v<typename P::scaling>)
    return {};
  else
    return *k;
}

template <class P, class Real>
struct encodes {
  const Real* x;
  Real weight;
  typename P::storage* q;
  const typename P::scaling* k;
  Real* lost;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto by = scaling_at<P>(k);
    q[i] = P::encode(static_cast<typename P::master>(x[i]), by);
    lost[i] += (x[i] - static_cast<Real>(P::decode(q[i], by))) * weight;
  }
};
template <class P, class Real>
struct decodes {
  const typename P::storage* q;
  const typename P::scaling* k;
  Real* x;
  bool adds;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto said = static_cast<Real>(P::decode(q[i], scaling_at<P>(k)));
    x[i] = adds ? x[i] + said : said;
  }
};

}  // namespace detail

template <Precision P, class Real, GridStream S>
void encode(std::size_t n, const Real* x, Real weight, typename P::storage* q,
            typename P::scaling* k, Real* lost, S s) {
  if constexpr (!std::is_empty_v<typename P::scaling>) {
    static_assert(std::same_as<typename P::master, float>, "scales are found by a float's bits");
    using load = detail::magnitude_bits<Real>;
    using pass = detail::largest_by_chunk<load, detail::partial_bits>;
    const std::size_t chunks = blocks_for(n, pass::chunk);
    const lent<double, S> partial(s, chunks);
    const detail::partial_bits of{partial.data()};
    s.launch(chunks, pass{n, load{x}, of});
    // One block, a chunk of whose is sixteen thousand chunks.
    s.launch(1, detail::largest_by_chunk<detail::partial_bits, detail::fitted<P>>{chunks, of, {k}});
  }
  for_each(s, n, detail::encodes<P, Real>{x, weight, q, k, lost});
}

template <Precision P, class Real, GridStream S>
void decode(std::size_t n, const typename P::storage* q, const typename P::scaling* k, Real* x,
            into how, S s) {
  for_each(s, n, detail::decodes<P, Real>{q, k, x, how == into::add});
}

}  // namespace cordee::inline CORDEE_ABI
