// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Packs the parameters of a network, and unpacks gradients, in one launch for a whole table
// (ops/packed_table.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/packed_table.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The last tensor with no more blocks, or filters, before it than `index`.
CORDEE_DEVICE inline const packed_tensor& tensor_at(
    const packed_tensor* table, std::size_t size, std::size_t index,
    std::size_t packed_tensor::*before = &packed_tensor::blocks_before) {
  std::size_t k = 0;
  for (std::size_t end = size; end - k > 1;) {
    const std::size_t middle = (k + end) / 2;
    if (table[middle].*before <= index)
      k = middle;
    else
      end = middle;
  }
  return table[k];
}

/// Each thread block packs one tile of one tensor, through shared memory. Quantized weights, whose
/// bytes are there already, are dequantized to Dequantized.
template <Number N, class Real, class Dequantized = N>
struct pack_table_kernel {
  static constexpr int threads = filter_tile::threads;
  static constexpr bool may_be_quantized = !std::same_as<Dequantized, N>;
  const packed_tensor* table;
  std::size_t size;
  const Real* plane;
  std::byte* packed;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return filter_tile::most_numbers * sizeof(Real);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const packed_tensor t = tensor_at(table, size, b.index());
    const std::size_t block = b.index() - t.blocks_before;
    Real* const weights = b.template shared<Real>(filter_tile::most_numbers);
    if (may_be_quantized && t.is_quantized)
      load_quantized(t, block, b.thread(), weights);
    else
      load(t, block, b.thread(), weights);
    b.sync();
    if (may_be_quantized && t.is_quantized)
      t.tile.for_each_crsk(block, b.thread(), storing<Dequantized>(t, weights, at<Dequantized>(t)));
    else
      store(t, block, b.thread(), weights);
  }
  CORDEE_DEVICE void store(const packed_tensor& t, std::size_t block, int thread,
                           const Real* weights) const {
    if (t.is_number) {
      t.tile.for_each_krsc(block, thread, storing<N>(t, weights, at<N>(t)));
      if (t.has_crsk)
        t.tile.for_each_crsk(block, thread,
                             storing<N>(t, weights, at<N>(t) + t.tile.layout.size()));
    } else {
      t.tile.for_each_krsc(block, thread, storing<Real>(t, weights, at<Real>(t)));
    }
  }
  CORDEE_DEVICE void load(const packed_tensor& t, std::size_t block, int thread,
                          Real* weights) const {
    const Real* const master = plane + t.master;
    t.tile.for_each_master(block, thread, [&](unsigned k, unsigned i, std::size_t index) {
      weights[k * t.tile.pitch + i] = master[index];
    });
  }

 private:
  template <class To>
  CORDEE_DEVICE To* at(const packed_tensor& t) const {
    return reinterpret_cast<To*>(packed + t.packed);
  }
  CORDEE_DEVICE void load_quantized(const packed_tensor& t, std::size_t block, int thread,
                                    Real* weights) const {
    const auto* const q = reinterpret_cast<const std::int8_t*>(packed + t.bytes);
    const auto* const scales =
        reinterpret_cast<const float*>(packed + t.scales) + t.tile.first_filter(block);
    t.tile.for_each_krsc(
        block, thread, [&](unsigned k, unsigned i, std::size_t index, bool is_weight) {
          if (is_weight) weights[k * t.tile.pitch + i] = static_cast<float>(q[index]) * scales[k];
        });
  }
  template <class To>
  CORDEE_DEVICE static auto storing(const packed_tensor& t, const Real* weights, To* to) {
    return [&t, weights, to](unsigned k, unsigned i, std::size_t index, bool is_weight) {
      const Real x = is_weight ? weights[k * t.tile.pitch + i] : Real{0};
      if constexpr (std::same_as<To, Real>)
        to[index] = x;
      else
        to[index] = precision::rounded<To>(static_cast<precision::wide<To>>(x));
    };
  }
};

/// Packs some tensors of a table: weights from `numbers`, which are rounded already, vectors from
/// the plane. Both pointers are where number 0 of the table would be.
template <Number N, class Real>
struct pack_numbers_kernel {
  static constexpr int threads = filter_tile::threads;
  pack_table_kernel<N, Real> whole;
  const N* numbers;
  std::size_t first_block;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return filter_tile::most_numbers * sizeof(Real);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const packed_tensor t = tensor_at(whole.table, whole.size, first_block + b.index());
    const std::size_t block = first_block + b.index() - t.blocks_before;
    Real* const weights = b.template shared<Real>(filter_tile::most_numbers);
    if (t.is_number) {
      const N* const rounded = numbers + t.master;
      t.tile.for_each_master(block, b.thread(), [&](unsigned k, unsigned i, std::size_t index) {
        weights[k * t.tile.pitch + i] = static_cast<Real>(precision::widened(rounded[index]));
      });
    } else {
      whole.load(t, block, b.thread(), weights);
    }
    b.sync();
    whole.store(t, block, b.thread(), weights);
  }
};

/// gradient <- factor (gradient + packed gradient), where a null factor is 1 and the sum has its
/// first term if `mode` is add. A gradient that is not packed is in the plane already.
template <Number N, class Real>
struct unpack_table_kernel {
  static constexpr int threads = filter_tile::threads;
  const packed_tensor* table;
  std::size_t size, first_block;
  const std::byte* packed;
  Real* plane;
  const float* factor;
  write_mode mode;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return filter_tile::most_numbers * sizeof(Real);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const packed_tensor t = tensor_at(table, size, first_block + b.index());
    if (!t.gradient_is_packed && factor == nullptr) return;
    const std::size_t block = first_block + b.index() - t.blocks_before;
    Real* const parts = b.template shared<Real>(filter_tile::most_numbers);
    if (t.gradient_is_packed) {
      const N* const numbers = reinterpret_cast<const N*>(packed + t.packed);
      t.tile.for_each_krsc(
          block, b.thread(), [&](unsigned k, unsigned i, std::size_t index, bool is_weight) {
            if (is_weight)
              parts[k * t.tile.pitch + i] = static_cast<Real>(precision::widened(numbers[index]));
          });
      b.sync();
    }
    const Real scale = factor == nullptr ? Real{1} : static_cast<Real>(*factor);
    const bool adds = t.gradient_is_packed && mode == write_mode::add;
    Real* const gradient = plane + t.master;
    t.tile.for_each_master(block, b.thread(), [&](unsigned k, unsigned i, std::size_t index) {
      const Real part = t.gradient_is_packed ? parts[k * t.tile.pitch + i] : gradient[index];
      gradient[index] = scale * (adds ? gradient[index] + part : part);
    });
  }
};

/// Packs the `size` tensors of a table in device memory; `last` is a host copy of the last one.
/// `packed` is where offsets count from, in bytes.
template <Number N, class Real, GpuStream S>
void pack_table(const packed_tensor* table, std::size_t size, const packed_tensor& last,
                const Real* plane, N* packed, S s) {
  s.launch_kernel(
      last.followed_by(packed_tensor()).blocks_before,
      pack_table_kernel<N, Real>{table, size, plane, reinterpret_cast<std::byte*>(packed)});
}

/// Packs tiles of the table's tensors from rounded weights: those of `blocks` thread blocks.
template <Number N, class Real, GpuStream S>
void pack_numbers_table(const packed_tensor* table, std::size_t size, std::size_t first_block,
                        std::size_t blocks, const N* numbers, const Real* plane, N* packed, S s) {
  s.launch_kernel(
      blocks,
      pack_numbers_kernel<N, Real>{
          {table, size, plane, reinterpret_cast<std::byte*>(packed)}, numbers, first_block});
}

/// Unpacks the gradients of the tensors first .. last, of which host copies are given.
template <Number N, class Real, GpuStream S>
void unpack_table(const packed_tensor* table, std::size_t size, const packed_tensor& first,
                  const packed_tensor& last, const N* packed, Real* plane, const float* factor,
                  write_mode mode, S s) {
  s.launch_kernel(last.followed_by(packed_tensor()).blocks_before - first.blocks_before,
                  unpack_table_kernel<N, Real>{table, size, first.blocks_before,
                                               reinterpret_cast<const std::byte*>(packed), plane,
                                               factor, mode});
}

}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
