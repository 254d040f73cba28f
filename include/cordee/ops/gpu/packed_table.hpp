// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Packs the parameters of a network, and unpacks gradients, in one launch for a whole table
// (ops/packed_table.hpp).
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/packed_table.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The last tensor with no more chunks before it than `chunk`.
template <class Chunks>
CORDEE_DEVICE const packed_tensor& tensor_at(const packed_tensor* table, std::size_t size,
                                             std::size_t chunk, const Chunks& chunks_before) {
  std::size_t k = 0;
  for (std::size_t end = size; end - k > 1;) {
    const std::size_t middle = (k + end) / 2;
    if (chunks_before(table[middle]) <= chunk)
      k = middle;
    else
      end = middle;
  }
  return table[k];
}

/// Indices are 32 bits, as in krsc_layout.
template <Number N, class Real>
struct pack_table_kernel {
  static constexpr int threads = 256;
  static constexpr bool independent = true;
  const packed_tensor* table;
  std::size_t size;
  const Real* plane;
  std::byte* packed;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const packed_tensor t =
        tensor_at(table, size, b.index(), [](const packed_tensor& x) { return x.packed_chunks; });
    const auto first = static_cast<unsigned>((b.index() - t.packed_chunks) * packed_tensor::chunk);
    const auto last =
        static_cast<unsigned>(std::min(first + packed_tensor::chunk, t.packed_size()));
    N* const numbers = reinterpret_cast<N*>(packed + t.packed);
    Real* const reals = reinterpret_cast<Real*>(packed + t.packed);
    for (unsigned i = first + static_cast<unsigned>(b.thread()); i < last; i += threads) {
      const unsigned c = i % t.padded_channels, row = i / t.padded_channels;
      const unsigned tap = row % t.taps, k = row / t.taps;
      Real x = 0;
      if (c < t.channels && k < t.filters)
        x = plane[t.master + (k * t.channels + c) * t.taps + tap];
      if (t.is_number)
        numbers[i] = precision::rounded<N>(static_cast<precision::wide<N>>(x));
      else
        reals[i] = x;
    }
  }
};

/// gradient <- factor (gradient + packed gradient), where a null factor is 1 and `mode` says
/// whether the sum has its first term. A gradient that is not packed is in the plane already.
template <Number N, class Real>
struct unpack_table_kernel {
  static constexpr int threads = 256;
  static constexpr bool independent = true;
  const packed_tensor* table;
  std::size_t size, first_chunk;
  const std::byte* packed;
  Real* plane;
  const float* factor;
  write_mode mode;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t chunk = first_chunk + b.index();
    const packed_tensor t =
        tensor_at(table, size, chunk, [](const packed_tensor& x) { return x.master_chunks; });
    if (!t.gradient_is_packed && factor == nullptr) return;
    const Real scale = factor == nullptr ? Real{1} : static_cast<Real>(*factor);
    const auto first = static_cast<unsigned>((chunk - t.master_chunks) * packed_tensor::chunk);
    const auto last = static_cast<unsigned>(std::min(first + packed_tensor::chunk, t.size()));
    const N* const numbers = reinterpret_cast<const N*>(packed + t.packed);
    for (unsigned i = first + static_cast<unsigned>(b.thread()); i < last; i += threads) {
      Real& gradient = plane[t.master + i];
      Real x = gradient;
      if (t.gradient_is_packed) {
        const unsigned tap = i % t.taps, row = i / t.taps;
        const unsigned c = row % t.channels, k = row / t.channels;
        const auto part = static_cast<Real>(
            precision::widened(numbers[(k * t.taps + tap) * t.padded_channels + c]));
        x = mode == write_mode::add ? x + part : part;
      }
      gradient = scale * x;
    }
  }
};

/// Packs the `size` tensors of a table in device memory; `last` is a host copy of the last one.
/// `packed` is where offsets count from, in bytes.
template <Number N, class Real, GpuStream S>
void pack_table(const packed_tensor* table, std::size_t size, const packed_tensor& last,
                const Real* plane, N* packed, S s) {
  s.launch_kernel(
      last.followed_by(packed_tensor()).packed_chunks,
      pack_table_kernel<N, Real>{table, size, plane, reinterpret_cast<std::byte*>(packed)});
}

/// Unpacks the gradients of the tensors first .. last, of which host copies are given.
template <Number N, class Real, GpuStream S>
void unpack_table(const packed_tensor* table, std::size_t size, const packed_tensor& first,
                  const packed_tensor& last, const N* packed, Real* plane, const float* factor,
                  write_mode mode, S s) {
  s.launch_kernel(last.followed_by(packed_tensor()).master_chunks - first.master_chunks,
                  unpack_table_kernel<N, Real>{table, size, first.master_chunks,
                                               reinterpret_cast<const std::byte*>(packed), plane,
                                               factor, mode});
}

}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
