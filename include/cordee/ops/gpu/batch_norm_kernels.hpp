// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of batch normalization over the activations on a GPU.
//
// A chunk yields its mean and squared deviations, from sums over x - x[0] in wide; chunks are
// merged in double, in their order, by the last blocks (batch_norm_merge.hpp). All loads of a row
// stand together, by vectors whose size is known when the kernel is compiled.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The coefficients of a vector of channels, by accesses of up to 16 bytes.
template <Number N, int Size, class Real>
CORDEE_DEVICE vec_16b<N, Size> load_coefficients(const Real* row) {
  constexpr int part = std::min(Size, vec_16b<Real>::size);
  vec_16b<N, Size> out;
  for (int k = 0; k < Size; k += part) {
    const vec_16b<Real, part> numbers(row + k);
    for (int i = 0; i < part; ++i)
      out.value[k + i] = static_cast<precision::wide<N>>(numbers.value[i]);
  }
  return out;
}

/// The coefficients of (x - center) scale + beta. One fused multiply-add, so that backward, which
/// computes the sign of y again, has the bits that forward stored.
template <Number N, int Size>
struct normalization_coefficients {
  vec_16b<N, Size> center, scale, beta;

  template <class Real>
  CORDEE_DEVICE normalization_coefficients(const batch_norm_coefficients<Real>& row,
                                           const Real* betas, std::size_t lane)
      : center(load_coefficients<N, Size>(row.mean + lane)),
        scale(load_coefficients<N, Size>(row.scale + lane)),
        beta(load_coefficients<N, Size>(betas + lane)) {}
  CORDEE_DEVICE precision::wide<N> normalized(int k, precision::wide<N> x) const {
    return std::fma(x - center.value[k], scale.value[k], beta.value[k]);
  }
};

/// The largest number that rounds to zero in N: half of the smallest subnormal, by ties to even.
template <Number N>
constexpr precision::wide<N> zero_bound() {
  if constexpr (precision::StorageOnly<N>)
    return precision::widened(std::bit_cast<N>(std::uint16_t{1})) / 2;
  else
    return 0;
}

/// dy masked by the epilogue's ReLU: zero where y is not positive. Without a residual y is computed
/// from x, which is read anyway.
template <class Epilogue, Number N, int Size>
CORDEE_DEVICE void mask_gradient(vec_16b<N, Size>& g, const vec_16b<N, Size>& x,
                                 const normalization_coefficients<N, Size>& of) {
  if constexpr (std::same_as<Epilogue, epilogue::relu>)
    for (int k = 0; k < Size; ++k)
      g.value[k] =
          of.normalized(k, x.value[k]) > zero_bound<N>() ? g.value[k] : precision::wide<N>{0};
}

/// Mean and sum of squared deviations of every chunk, merged.
template <Number N, int Size, class Real>
struct chunk_moments_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr int resident_blocks = 4;  // at most 64 registers
  batch_norm_tiles tiling;
  const N* x;
  moments_merge<Real> moments;
  double* message;  // moments_merge::merge

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_sums<N, Size>::bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    vec_16b<N, Size> sum, square;
    if (span.start < span.last) {
      const vec_16b<N, Size> origin(x + tiling.offset(span.group, span.first, span.lane));
      tiling.for_each_row<4>(
          tiling.first_row(span), [&](std::size_t at) { return vec_16b<N, Size>(x + at); },
          [&](std::size_t, const vec_16b<N, Size>& z) {
            for (int k = 0; k < Size; ++k) {
              const precision::wide<N> d = z.value[k] - origin.value[k];
              sum.value[k] += d;
              square.value[k] += d * d;
            }
          });
    }
    const column_sums<N, Size> sums(b, tiling, sum, square);
    const auto at = tiling.position_of(b.index());
    sums.for_each_channel(
        b, tiling, at,
        [&](std::size_t g, std::size_t chunk, std::size_t lane, precision::wide<N> s1,
            precision::wide<N> s2) { store(g, chunk, lane, s1, s2); });
    moments.template merge<threads>(b, tiling.merge_place_of(at), sums.doubles(), message);
  }

 private:
  CORDEE_DEVICE void store(std::size_t g, std::size_t chunk, std::size_t lane,
                           precision::wide<N> sum, precision::wide<N> square) const {
    const std::size_t count = tiling.rows_of(g, chunk);
    if (count == 0) return;
    moments.store_chunk(
        moments.chunks.entry(g, chunk, lane), static_cast<double>(count),
        static_cast<double>(precision::widened(x[tiling.offset(g, chunk * tiling.rows, lane)])),
        static_cast<double>(sum), static_cast<double>(square));
  }
};

/// y <- f((x - center) scale + beta (+ residual)), with the coefficients of each group.
template <class Epilogue, Number N, int Size, class Real>
struct normalize_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr bool independent = true;
  static constexpr int depth = std::same_as<Epilogue, epilogue::add_relu> ? 2 : 4;  // four loads
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  const N* residual;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    for_each_vector<depth>(
        b, [&](std::size_t offset, const vec_16b<N, Size>& y) { y.store_whole(t.y + offset); });
  }
  /// f(offset, y) for this thread's vectors of y; `Depth` are loaded before the first of them.
  template <int Depth, class Block, class F>
  CORDEE_DEVICE void for_each_vector(Block& b, const F& f) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    const normalization_coefficients<N, Size> of(row, t.beta, span.lane);
    struct row_values {
      vec_16b<N, Size> x, residual;
    };
    tiling.for_each_row<Depth>(
        tiling.first_row(span),
        [&](std::size_t at) {
          row_values values{vec_16b<N, Size>(t.x + at), {}};
          if constexpr (std::same_as<Epilogue, epilogue::add_relu>)
            values.residual = vec_16b<N, Size>(residual + at);
          return values;
        },
        [&](std::size_t at, const row_values& values) {
          vec_16b<N, Size> z = values.x;
          for (int k = 0; k < Size; ++k) {
            z.value[k] = of.normalized(k, z.value[k]);
            if constexpr (std::same_as<Epilogue, epilogue::add_relu>)
              z.value[k] += values.residual.value[k];
            if constexpr (!std::same_as<Epilogue, epilogue::store>)
              z.value[k] = z.value[k] < 0 ? precision::wide<N>{0} : z.value[k];
          }
          f(at, z);
        });
  }
};

/// Merges sum(g) and sum(g h) of every chunk: add_rows(rows, sum, product) adds those of a thread's
/// rows, h without its factor.
template <Number N, int Size, class Real, class Block, class AddRows>
CORDEE_DEVICE void sum_chunks(Block& b, const batch_norm_tiles& tiling,
                              const sums_merge<Real>& merged, const AddRows& add_rows) {
  const auto span = tiling.rows_of_thread(b.index(), b.thread());
  vec_16b<N, Size> sum, product;
  if (span.start < span.last) add_rows(span, sum, product);
  const column_sums<N, Size> sums(b, tiling, sum, product);
  const auto at = tiling.position_of(b.index());
  sums.for_each_channel(b, tiling, at,
                        [&](std::size_t g, std::size_t chunk, std::size_t lane,
                            precision::wide<N> shift, precision::wide<N> scale) {
                          const batch_norm_coefficients<Real> row(merged.saved, tiling.in.lanes(),
                                                                  g);
                          const std::size_t entry = merged.chunks.entry(g, chunk, lane);
                          merged.chunks.firsts[entry] = static_cast<double>(shift);
                          merged.chunks.seconds[entry] =
                              static_cast<double>(scale) * static_cast<double>(row.inv_std[lane]);
                        });
  merged.template merge<batch_norm_tiles::threads>(b, tiling.merge_place_of(at), sums.doubles());
}

/// sum(g) and sum(g h) of every chunk, merged, with h the normalized x. Where a residual was added,
/// g replaces dy, since it is also the residual's gradient; only then y is read.
template <class Epilogue, Number N, int Size, class Real>
struct chunk_sums_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  N* dy;
  sums_merge<Real> merged;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_sums<N, Size>::bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    sum_chunks<N, Size>(b, tiling, merged,
                        [&](const batch_norm_tiles::thread_rows& span, vec_16b<N, Size>& sum,
                            vec_16b<N, Size>& product) { add_rows(span, sum, product); });
  }

 private:
  CORDEE_DEVICE void add_rows(const batch_norm_tiles::thread_rows& span, vec_16b<N, Size>& sum,
                              vec_16b<N, Size>& product) const {
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    const normalization_coefficients<N, Size> of(row, t.beta, span.lane);
    for (auto at = tiling.first_row(span); at.left > 0; tiling.advance(at)) {
      vec_16b<N, Size> g(dy + at.offset);
      const vec_16b<N, Size> z(t.x + at.offset);
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) {
        const vec_16b<N, Size> y(t.y + at.offset);
        for (int k = 0; k < Size; ++k)
          g.value[k] = y.value[k] > 0 ? g.value[k] : precision::wide<N>{0};
        g.store(dy + at.offset);
      }
      mask_gradient<Epilogue>(g, z, of);
      for (int k = 0; k < Size; ++k) {
        sum.value[k] += g.value[k];
        product.value[k] += g.value[k] * (z.value[k] - of.center.value[k]);
      }
    }
  }
};

/// dx <- scale g - shift - (x - center) slope, rounded to Out; of type N it may be dy.
template <class Epilogue, Number N, int Size, class Real, Number Out = N>
struct input_gradient_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr int resident_blocks = 4;  // at most 64 registers
  static constexpr bool independent = true;
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  const N* dy;
  Out* dx;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    auto at = tiling.first_row(span);  // before the coefficients, so that divisions have registers
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    const normalization_coefficients<N, Size> of(row, t.beta, span.lane);
    const auto shift = load_coefficients<N, Size>(row.shift + span.lane),
               slope = load_coefficients<N, Size>(row.slope + span.lane);
    for (; at.left > 0; tiling.advance(at)) {
      vec_16b<N, Size> g(dy + at.offset);
      const vec_16b<N, Size> z(t.x + at.offset);
      mask_gradient<Epilogue>(g, z, of);
      for (int k = 0; k < Size; ++k)
        g.value[k] = of.scale.value[k] * g.value[k] - shift.value[k] -
                     (z.value[k] - of.center.value[k]) * slope.value[k];
      if constexpr (std::same_as<Out, N>) {
        g.store(dx + at.offset);
      } else {
        vec_16b<Out, Size> out;
        for (int k = 0; k < Size; ++k) out.value[k] = g.value[k];
        out.store(dx + at.offset);
      }
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
