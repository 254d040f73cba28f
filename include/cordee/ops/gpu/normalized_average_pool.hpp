// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a residual block and the global average pool behind it on a GPU in one pass over x and
// the residual, forward and backward: the sum is not in memory, nor is its gradient, of which all
// pixels have the same but for the ReLU. Per sample and channel, with P pixels:
//
//   y = sum_i z[i] / P,   z[i] = relu(gamma h[i] + beta + residual[i])
//   g[i] = dy / P [z[i] > 0],   h as in batch norm
//   sum_i g[i] = dy / P #{i: z[i] > 0},   sum_i g[i] h[i] = dy / P sum_{i: z[i] > 0} h[i]
//
// Forward stores the signs of z, a bit each, and the last sum, in the memory that z would have: the
// sums of backward are of these alone, and dx is computed of x and the signs. y and g are those of
// the separate passes, bit by bit.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/batch_norm_kernels.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What forward leaves for backward of each vector of channels: by accesses of 16 bytes, those of
/// adjacent vectors side by side.
class pooled_signs {
 public:
  template <Number N>
  pooled_signs(N* memory, std::size_t vectors, std::size_t size)
      : vectors_(vectors),
        positive_(reinterpret_cast<std::uint64_t*>(memory)),
        deviations_(reinterpret_cast<float*>(positive_ + vectors * size)) {}

  /// positive: of each channel bit i says whether z[i] > 0; deviations: the sums of x - mean over
  /// these pixels.
  template <std::size_t Size>
  CORDEE_DEVICE void store(std::size_t vector, const std::uint64_t (&positive)[Size],
                           const float (&deviations)[Size]) const {
    for_each_part<Size>(vector, positive_, [&]<std::size_t Part>(std::size_t k, std::uint64_t* to) {
      std::uint64_t part[Part];
      for (std::size_t j = 0; j < Part; ++j) part[j] = positive[k + j];
      store_whole_unit(part, to);
    });
    for_each_part<Size>(vector, deviations_, [&]<std::size_t Part>(std::size_t k, float* to) {
      float part[Part];
      for (std::size_t j = 0; j < Part; ++j) part[j] = deviations[k + j];
      store_whole_unit(part, to);
    });
  }
  template <std::size_t Size>
  CORDEE_DEVICE void load_positive(std::size_t vector, std::uint64_t (&to)[Size]) const {
    load(vector, positive_, to);
  }
  template <std::size_t Size>
  CORDEE_DEVICE void load_deviations(std::size_t vector, float (&to)[Size]) const {
    load(vector, deviations_, to);
  }

 private:
  // f<Part>(k, address) for the parts of a vector, numbers k .. k + Part - 1.
  template <std::size_t Size, class T, class F>
  CORDEE_DEVICE void for_each_part(std::size_t vector, T* memory, const F& f) const {
    constexpr std::size_t part = Size % (16 / sizeof(T)) == 0 ? 16 / sizeof(T) : 1;
    for (std::size_t k = 0; k < Size; k += part)
      f.template operator()<part>(k, memory + (k / part * vectors_ + vector) * part);
  }
  template <class T, std::size_t Size>
  CORDEE_DEVICE void load(std::size_t vector, T* memory, T (&to)[Size]) const {
    for_each_part<Size>(vector, memory, [&]<std::size_t Part>(std::size_t k, const T* from) {
      T part[Part];
      load_unit(from, part);
      for (std::size_t j = 0; j < Part; ++j) to[k + j] = part[j];
    });
  }

  std::size_t vectors_;
  std::uint64_t* positive_;
  float* deviations_;
};

/// The vectors of channels of all samples, a thread each, which goes over their pixels.
template <int Size>
struct pooled_vectors {
  static constexpr int threads = 64;  // as average_pool_kernel

  blocked_layout in;
  std::size_t vectors;

  pooled_vectors(const extent& e, int V, int samples)
      : in(e, V), vectors(static_cast<std::size_t>(samples) * in.lanes() / Size) {}
  [[nodiscard]] std::size_t blocks() const { return device::blocks_for(vectors, threads); }

  struct position {
    std::size_t first, lane, offset;  // in (samples, lanes), of channels, and of pixel 0
  };
  [[nodiscard]] CORDEE_DEVICE position at(std::size_t i) const {
    const std::size_t first = i * Size, plane = first / in.V;
    return {first, first % in.lanes(), plane * in.pixels * in.V + first % in.V};
  }
};

/// y, and what backward needs.
template <Number N, int Size, class Real>
struct normalized_average_pool_kernel {
  static constexpr int threads = pooled_vectors<Size>::threads;
  static constexpr bool independent = true;
  static constexpr int depth = 2;  // pixels that are loaded before the first of them is used
  pooled_vectors<Size> of;
  batch_norm_tensors<N, Real> t;
  const N* residual;
  pooled_signs signs;
  N* y;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    if (i >= of.vectors) return;
    const auto at = of.at(i);
    const batch_norm_coefficients<Real> row(t.saved, of.in.lanes(), 0);
    const normalization_coefficients<N, Size> norm(row, t.beta, at.lane);
    vec_16b<N, Size> sum, deviations;
    std::uint64_t positive[std::size_t{Size}] = {};
    const auto add = [&](std::size_t pixel, const vec_16b<N, Size>& x, const vec_16b<N, Size>& r) {
      vec_16b<N, Size> z;
      for (int k = 0; k < Size; ++k) {
        z.value[k] = norm.normalized(k, x.value[k]) + r.value[k];
        z.value[k] = z.value[k] < 0 ? precision::wide<N>{0} : z.value[k];
      }
      (void)z.round();  // as z would be stored
      for (int k = 0; k < Size; ++k) {
        const bool is_positive = z.value[k] > 0;
        sum.value[k] += z.value[k];
        positive[k] |= std::uint64_t{is_positive} << pixel;
        deviations.value[k] +=
            is_positive ? x.value[k] - norm.center.value[k] : precision::wide<N>{0};
      }
    };
    std::size_t pixel = 0;
    for (; pixel + depth <= of.in.pixels; pixel += depth) {
      vec_16b<N, Size> x[std::size_t{depth}], r[std::size_t{depth}];
      for (int j = 0; j < depth; ++j) {
        const std::size_t from = at.offset + (pixel + static_cast<std::size_t>(j)) * of.in.V;
        x[j] = vec_16b<N, Size>(t.x + from);
        r[j] = vec_16b<N, Size>(residual + from);
      }
      for (int j = 0; j < depth; ++j) add(pixel + static_cast<std::size_t>(j), x[j], r[j]);
    }
    for (; pixel < of.in.pixels; ++pixel) {
      const std::size_t from = at.offset + pixel * of.in.V;
      add(pixel, vec_16b<N, Size>(t.x + from), vec_16b<N, Size>(residual + from));
    }
    for (precision::wide<N>& value : sum.value)
      value /= static_cast<precision::wide<N>>(of.in.pixels);
    sum.store(y + at.first);
    float sums[std::size_t{Size}];
    for (int k = 0; k < Size; ++k) sums[k] = static_cast<float>(deviations.value[k]);
    signs.store(i, positive, sums);
  }
};

/// dy / P, rounded as the gradient of each pixel is.
template <Number N, int Size>
CORDEE_DEVICE vec_16b<N, Size> pooled_gradient(const N* dy, std::size_t pixels) {
  vec_16b<N, Size> g(dy);
  for (precision::wide<N>& value : g.value) value /= static_cast<precision::wide<N>>(pixels);
  (void)g.round();
  return g;
}

/// sum(g) and sum(g h) of every chunk of samples, merged.
template <Number N, int Size, class Real>
struct pooled_sums_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;  // of images of one pixel
  const N* dy;              // (samples, lanes)
  pooled_signs signs;
  std::size_t pixels;
  sums_merge<Real> merged;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_sums<N, Size>::bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    sum_chunks<N, Size>(b, tiling, merged,
                        [&](const batch_norm_tiles::thread_rows& span, vec_16b<N, Size>& sum,
                            vec_16b<N, Size>& product) {
                          for (auto at = tiling.first_row(span); at.left > 0; tiling.advance(at))
                            add(at.offset, sum, product);
                        });
  }

 private:
  CORDEE_DEVICE void add(std::size_t at, vec_16b<N, Size>& sum, vec_16b<N, Size>& product) const {
    const auto g = pooled_gradient<N, Size>(dy + at, pixels);
    std::uint64_t positive[std::size_t{Size}];
    float deviations[std::size_t{Size}];
    signs.load_positive(at / Size, positive);
    signs.load_deviations(at / Size, deviations);
    for (int k = 0; k < Size; ++k) {
      sum.value[k] += g.value[k] * static_cast<precision::wide<N>>(std::popcount(positive[k]));
      product.value[k] += g.value[k] * deviations[k];
    }
  }
};

/// dx, and the gradient of the sum, from shift and slope of sums over samples.
template <Number N, int Size, class Real>
struct pooled_input_gradient_kernel {
  static constexpr int threads = pooled_vectors<Size>::threads;
  static constexpr bool independent = true;
  static constexpr int depth = 4;
  pooled_vectors<Size> of;
  batch_norm_tensors<N, Real> t;
  const N* dy;  // (samples, lanes)
  pooled_signs signs;
  N *sum_gradient, *dx;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    if (i >= of.vectors) return;
    const auto at = of.at(i);
    const batch_norm_coefficients<Real> row(t.saved, of.in.lanes(), 0);
    const auto center = load_coefficients<N, Size>(row.mean + at.lane),
               scale = load_coefficients<N, Size>(row.scale + at.lane);
    auto shift = load_coefficients<N, Size>(row.shift + at.lane),
         slope = load_coefficients<N, Size>(row.slope + at.lane);
    const auto pixels = static_cast<precision::wide<N>>(of.in.pixels);
    for (int k = 0; k < Size; ++k) {
      shift.value[k] /= pixels;
      slope.value[k] /= pixels;
    }
    const auto g = pooled_gradient<N, Size>(dy + at.first, of.in.pixels);
    std::uint64_t positive[std::size_t{Size}];
    signs.load_positive(i, positive);
    const auto store = [&](std::size_t pixel, const vec_16b<N, Size>& x) {
      const std::size_t to = at.offset + pixel * of.in.V;
      vec_16b<N, Size> masked, out;
      for (int k = 0; k < Size; ++k) {
        masked.value[k] = (positive[k] >> pixel & 1U) != 0 ? g.value[k] : precision::wide<N>{0};
        out.value[k] = scale.value[k] * masked.value[k] - shift.value[k] -
                       (x.value[k] - center.value[k]) * slope.value[k];
      }
      masked.store_whole(sum_gradient + to);
      out.store_whole(dx + to);
    };
    std::size_t pixel = 0;
    for (; pixel + depth <= of.in.pixels; pixel += depth) {
      vec_16b<N, Size> x[std::size_t{depth}];
      for (int j = 0; j < depth; ++j)
        x[j] = vec_16b<N, Size>(t.x + at.offset + (pixel + static_cast<std::size_t>(j)) * of.in.V);
      for (int j = 0; j < depth; ++j) store(pixel + static_cast<std::size_t>(j), x[j]);
    }
    for (; pixel < of.in.pixels; ++pixel)
      store(pixel, vec_16b<N, Size>(t.x + at.offset + pixel * of.in.V));
  }
};

/// y (samples, lanes) of x and a residual, by coefficients of any origin of one group. t.y, which
/// has room for z, gets the signs.
template <Number N, int V, class Real, GpuStream S>
void normalized_average_pool_forward(const extent& in, int samples,
                                     const batch_norm_tensors<N, Real>& t, const N* residual, N* y,
                                     S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, residual, t.y, y);
  expects(fits_pooled_signs(in.pixels(), sizeof(N)),
          "normalized_average_pool: images of 6 to 64 pixels");
  const pooled_vectors<size> of(in, V, samples);
  s.launch_kernel(of.blocks(), normalized_average_pool_kernel<N, size, Real>{
                                   of, t, residual, {t.y, of.vectors, size}, y});
}

/// dx, the gradient of the sum, and the parameters' gradients from dy of the pool's output
/// (samples, lanes), with t.y as forward left it and the other arguments of batch_norm_backward.
template <Number N, int V, class Real, GpuStream S>
void normalized_average_pool_backward(const batch_norm_problem& at, int samples,
                                      const batch_norm_tensors<N, Real>& t, double count,
                                      const N* dy, N* sum_gradient, N* dx, Real* dgamma,
                                      Real* dbeta, write_mode mode,
                                      const statistics_allreduce& combine, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, t.y, dy, sum_gradient, dx);
  expects(at.ghost_batches(samples) <= 1, "normalized_average_pool: statistics are of one group");
  const pooled_vectors<size> of(at.in, V, samples);
  const pooled_signs signs(t.y, of.vectors, size);
  differentiate_chunks<size>(
      batch_norm_problem{{at.in.channels, 1, 1}}, V, samples, t, count, dgamma, dbeta, mode,
      combine, s,
      [&](const batch_norm_tiles& tiling, const sums_merge<Real>& merged) {
        s.launch_kernel(tiling.blocks(), pooled_sums_kernel<N, size, Real>{tiling, dy, signs,
                                                                           at.in.pixels(), merged});
      },
      [&](const batch_norm_tiles&) {
        s.launch_kernel(of.blocks(), pooled_input_gradient_kernel<N, size, Real>{of, t, dy, signs,
                                                                                 sum_gradient, dx});
      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
