// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Codes of scaled_sign on a GPU (comm/reducers/gathered.hpp), of all tensors of a bucket at once:
//
//   code   the mean magnitude of each tensor, then a bit for each number of the bucket, eight in a
//          byte; those between tensors mean nothing
//
// Tensors begin at multiples of 64 numbers, so that no byte has numbers of two.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/segmented.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// x <- x + e, e <- 0
template <class Real>
struct take_residual_op {
  Real *x, *e;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    x[i] += e[i];
    e[i] = 0;
  }
};
/// |x[i]|, of which not the squares are summed.
template <class Real>
struct magnitude_op {
  const Real* x;
  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at(x);
  }
  CORDEE_DEVICE static double term(double value) { return value < 0 ? -value : value; }
};

/// e <- x - code(x), x <- 0; a thread writes a byte of signs.
template <class Real>
struct encode_signs_kernel {
  static constexpr int threads = 256;
  table_part table;
  const double* sums;  // of the magnitudes of each tensor
  Real *x, *e, *scales;
  std::byte* signs;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const table_part::run run = table.run_at(b.index());
    if (run.first >= run.last) return;
    const auto scale =
        static_cast<Real>(sums[run.k] / static_cast<double>(table.numbers_of(run.in_part)));
    if (b.thread() == 0 && b.index() == run.first_chunk) scales[run.k] = scale;
    for (std::size_t first = run.first + 8 * static_cast<std::size_t>(b.thread()); first < run.last;
         first += 8 * std::size_t{threads}) {
      unsigned negative = 0;
      for (std::size_t j = 0; j < 8 && first + j < run.last; ++j) {
        const Real value = x[first + j];
        const bool is_negative = core::signbit(value);
        negative |= static_cast<unsigned>(is_negative) << j;
        e[first + j] = value - (is_negative ? -scale : scale);
        x[first + j] = 0;
      }
      signs[first / 8] = static_cast<std::byte>(negative);
    }
  }
};
/// x <- the mean of `ranks` codes of `size` bytes, added in their order.
template <class Real>
struct decode_signs_kernel {
  static constexpr int threads = 256;
  table_part table;
  const std::byte* codes;   // (ranks, size)
  std::size_t size, signs;  // where a code's bits begin
  int ranks;
  Real* x;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const table_part::run run = table.run_at(b.index());
    for (std::size_t i = run.first + static_cast<std::size_t>(b.thread()); i < run.last;
         i += threads) {
      Real sum = 0;
      const std::byte* code = codes;
      for (int rank = 0; rank < ranks; ++rank, code += size) {
        const Real scale = reinterpret_cast<const Real*>(code)[run.k];
        const auto byte = static_cast<unsigned>(code[signs + i / 8]);
        sum += (byte >> (i % 8) & 1) != 0 ? -scale : scale;
      }
      x[i] = sum / static_cast<Real>(ranks);
    }
  }
};

/// x <- x + e, e <- 0.
template <class Real, GpuStream S>
void take_residual(std::size_t n, Real* x, Real* e, S s) {
  for_each(s, n, take_residual_op<Real>{x, e});
}
/// The code of x, and what it loses in e; x <- 0. Requires tensors whose offsets are multiples of
/// 64, and a code aligned as Real.
template <class Real, GpuStream S>
void encode_signs(std::span<const segment> tensors, Real* x, Real* e, std::byte* code, S s) {
  const device::stream_buffer<double, S> sums(s, tensors.size());
  launch_squares<Real>(s, tensors, squared_body<magnitude_op<Real>>{{x}, sums.data()});
  for_each_part(tensors, segmented_chunk_size, [&](const auto& part) {
    s.launch_kernel(part.chunks(), encode_signs_kernel<Real>{part, sums.data(), x, e,
                                                             reinterpret_cast<Real*>(code),
                                                             code + tensors.size() * sizeof(Real)});
  });
}
/// x <- the mean of the codes (ranks, size).
template <class Real, GpuStream S>
void decode_signs(std::span<const segment> tensors, const std::byte* codes, std::size_t size,
                  int ranks, Real* x, S s) {
  for_each_part(tensors, segmented_chunk_size, [&](const auto& part) {
    s.launch_kernel(part.chunks(), decode_signs_kernel<Real>{
                                       part, codes, size, tensors.size() * sizeof(Real), ranks, x});
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
