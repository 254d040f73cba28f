// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Encoding and decoding of messages in a compressed precision P (comm/reducers/encoded_wire.hpp):
// the maximum of every chunk, the scaling that fits all, then each number. The scaling stays in
// device memory; the host never reads it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// store(chunk, max of load(i) over the chunk); the maximum starts from 0.
template <class Load, class Store>
struct chunk_max_kernel {
  static constexpr int threads = 256;
  static constexpr std::size_t chunk = 64 * threads;
  std::size_t n;
  Load load;
  Store store;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t first = b.index() * chunk, last = std::min(first + chunk, n);
    double max = 0;
    for (std::size_t i = first + static_cast<std::size_t>(b.thread()); i < last; i += threads)
      if (load(i) > max) max = load(i);
    max = block_max<threads>(b, max);
    if (b.thread() == 0) store(b.index(), max);
  }
};

/// |x| as the bits of a float; those of infinities and NaNs exceed those of all finite numbers.
template <class Real>
struct magnitude_bits_op {
  const Real* x;
  CORDEE_DEVICE double operator()(std::size_t i) const {
    return std::bit_cast<std::uint32_t>(static_cast<float>(x[i])) & 0x7fffffffu;
  }
};
struct partial_max {
  double* values;
  CORDEE_DEVICE double operator()(std::size_t i) const { return values[i]; }
  CORDEE_DEVICE void operator()(std::size_t chunk, double max) const { values[chunk] = max; }
};
/// *scaling <- the scaling that fits this maximum
template <class P>
struct fit_scaling_op {
  typename P::scaling* scaling;
  CORDEE_DEVICE void operator()(std::size_t, double max) const {
    *scaling = P::fit(std::bit_cast<float>(static_cast<std::uint32_t>(max)));
  }
};

/// *k, or the empty scaling of precisions without one.
template <class P>
CORDEE_DEVICE typename P::scaling load_scaling(const typename P::scaling* k) {
  if constexpr (std::is_empty_v<typename P::scaling>)
    return {};
  else
    return *k;
}

template <class P, class Real>
struct encode_op {
  const Real* x;
  Real weight;
  typename P::storage* q;
  const typename P::scaling* k;
  Real* residual;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto scaling = load_scaling<P>(k);
    const Real value = x[i];  // once: q may lie anywhere, for all that a compiler knows
    const auto encoded = P::encode(static_cast<typename P::master>(value), scaling);
    q[i] = encoded;
    residual[i] += (value - static_cast<Real>(P::decode(encoded, scaling))) * weight;
  }
};
template <class P, class Real>
struct decode_op {
  const typename P::storage* q;
  const typename P::scaling* k;
  Real* x;
  bool accumulate;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto decoded = static_cast<Real>(P::decode(q[i], load_scaling<P>(k)));
    x[i] = accumulate ? x[i] + decoded : decoded;
  }
};

template <Precision P, class Real, GpuStream S>
void encode(std::size_t n, const Real* x, Real weight, typename P::storage* q,
            typename P::scaling* k, Real* residual, S s) {
  if constexpr (!std::is_empty_v<typename P::scaling>) {
    static_assert(std::same_as<typename P::master, float>,
                  "encode: precisions with a scaling need float masters");
    using load = magnitude_bits_op<Real>;
    using kernel = chunk_max_kernel<load, partial_max>;
    const std::size_t chunks = device::blocks_for(n, kernel::chunk);
    const device::stream_buffer<double, S> partial(s, chunks);
    const partial_max chunk_maxima{partial.data()};
    s.launch_kernel(chunks, kernel{n, load{x}, chunk_maxima});
    // One block; its chunk holds the maxima of 16,384 chunks.
    s.launch_kernel(1, chunk_max_kernel<partial_max, fit_scaling_op<P>>{chunks, chunk_maxima, {k}});
  }
  for_each(s, n, encode_op<P, Real>{x, weight, q, k, residual});
}

template <Precision P, class Real, GpuStream S>
void decode(std::size_t n, const typename P::storage* q, const typename P::scaling* k, Real* x,
            write_mode mode, S s) {
  for_each(s, n, decode_op<P, Real>{q, k, x, mode == write_mode::add});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
