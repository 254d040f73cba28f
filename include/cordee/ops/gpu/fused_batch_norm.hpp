// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is left of batch normalization on a GPU where convolutions do its passes over activations:
// sums over pixels become coefficients, and dx is computed of a masked gradient.
//
//   forward   sum x, sum x^2, from the convolution before  ->  mean, 1 / deviation, the running
//             statistics, and scale and bias in 16 bits, by which the convolution behind reads x
//   backward  g = dy [y > 0], sum g, sum g h, from the input gradient of the convolution behind
//             ->  dx, and the parameters' gradients
//
// A variance from float sums, sum x^2 / n - mean^2, has an error of about 2^-24 (mean^2 +
// variance) times a few units: the epilogues of convolutions take it this way (cuDNN's GENSTATS).
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// scale and bias, (lanes) each, of y = relu(scale x + bias) in 16 bits. They lie in the saved row
/// `shift`, which forward does not use, until backward writes its sums there.
template <Number N, class Real>
struct rounded_coefficients {
  static_assert(2 * sizeof(N) <= sizeof(Real));
  N *scale, *bias;

  constexpr rounded_coefficients(Real* saved, std::size_t lanes)
      : scale(reinterpret_cast<N*>(batch_norm_coefficients<Real>(saved, lanes, 0).shift)),
        bias(scale + lanes) {}
  CORDEE_DEVICE void store(std::size_t c, double factor, double beta, double mean) const {
    scale[c] = precision::rounded<N>(static_cast<precision::wide<N>>(factor));
    bias[c] = precision::rounded<N>(static_cast<precision::wide<N>>(beta - mean * factor));
  }
};

/// Lane c's coefficients from sums over `count` values, and the running statistics.
template <Number N, class Real>
struct summed_moments_op {
  static constexpr std::size_t numbers_per_thread = 1;
  batch_statistics<Real> to;
  std::size_t lanes;
  double count;
  const float *sum, *squares;  // (lanes)

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(to.saved, lanes, 0);
    const double mean = static_cast<double>(sum[c]) / count,
                 difference = static_cast<double>(squares[c]) / count - mean * mean,
                 variance = difference < 0 ? 0 : difference;  // NaN stays NaN
    const double inverse = 1 / std::sqrt(variance + batch_norm_problem::epsilon),
                 factor = static_cast<double>(to.gamma[c]) * inverse;
    row.mean[c] = static_cast<Real>(mean);
    row.inv_std[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(factor);
    if (to.beta != nullptr)
      rounded_coefficients<N, Real>(to.saved, lanes)
          .store(c, factor, static_cast<double>(to.beta[c]), mean);
    if (c >= to.channels) return;
    const running_statistics_op<Real> running{1,       lanes,           nullptr,
                                              nullptr, to.running_mean, to.running_variance};
    running.move(c, mean, count > 1 ? count / (count - 1) * variance : variance, 1);
  }
};

/// Lane c's rounded coefficients from the saved ones.
template <Number N, class Real>
struct round_coefficients_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t lanes;
  const Real* beta;
  Real* saved;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    rounded_coefficients<N, Real>(saved, lanes)
        .store(c, static_cast<double>(row.scale[c]), static_cast<double>(beta[c]),
               static_cast<double>(row.mean[c]));
  }
};

/// dx <- scale (g - sum g / n - (x - center) inv_std sum(g h) / n) of a masked gradient g. The sums
/// are in the saved rows `shift` and `slope`.
template <Number N, int Size>
struct summed_gradient_coefficients {
  vec_16b<N, Size> center, scale, shift, slope;

  template <class Real>
  CORDEE_DEVICE summed_gradient_coefficients(const batch_norm_coefficients<Real>& row,
                                             std::size_t lane, Real inverse_count)
      : center(load_coefficients<N, Size>(row.mean + lane)),
        scale(load_coefficients<N, Size>(row.scale + lane)),
        shift(load_coefficients<N, Size>(row.shift + lane)),
        slope(load_coefficients<N, Size>(row.slope + lane)) {
    const auto inv_std = load_coefficients<N, Size>(row.inv_std + lane);
    for (int k = 0; k < Size; ++k) {
      const auto part = scale.value[k] * static_cast<precision::wide<N>>(inverse_count);
      shift.value[k] *= part;
      slope.value[k] *= part * inv_std.value[k];
    }
  }
  CORDEE_DEVICE void store(const vec_16b<N, Size>& g, const vec_16b<N, Size>& x, N* dx) const {
    vec_16b<N, Size> out;
    for (int k = 0; k < Size; ++k)
      out.value[k] = scale.value[k] * g.value[k] - shift.value[k] -
                     (x.value[k] - center.value[k]) * slope.value[k];
    out.store(dx);
  }
};
/// What a thread does of one batch norm: the parameters' gradients are written by the threads that
/// have the first row of their channels.
template <Number N, class Real>
struct summed_gradient {
  batch_norm_tensors<N, Real> t;
  N* dx;
  parameter_gradient_op<Real> gradient;

  template <int Size>
  CORDEE_DEVICE summed_gradient_coefficients<N, Size> begin(const batch_norm_tiles& tiling,
                                                            const batch_norm_tiles::thread_rows& of,
                                                            Real inverse_count) const {
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), 0);
    if (of.start == 0)
      for (std::size_t c = of.lane; c < of.lane + Size && c < tiling.in.channels; ++c)
        gradient.add(c, static_cast<double>(row.shift[c]), static_cast<double>(row.slope[c]));
    return {row, of.lane, inverse_count};
  }
};

/// dx of g, which may be dx's memory.
template <Number N, int Size, class Real>
struct summed_gradient_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr int resident_blocks = 4;  // at most 64 registers
  static constexpr bool independent = true;
  batch_norm_tiles tiling;
  const N* g;
  summed_gradient<N, Real> norm;
  Real inverse_count;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    auto at = tiling.first_row(span);
    const auto of = norm.template begin<Size>(tiling, span, inverse_count);
    for (; at.left > 0; tiling.advance(at))
      of.store(vec_16b<N, Size>(g + at.offset), vec_16b<N, Size>(norm.t.x + at.offset),
               norm.dx + at.offset);
  }
};
/// The same of two batch norms whose outputs were added, from one reading of g: at the end of a
/// residual block with a projection. One dx may be in g's memory.
template <Number N, int Size, class Real>
struct dual_summed_gradient_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr int resident_blocks = 2;  // at most 128 registers
  static constexpr bool independent = true;
  batch_norm_tiles tiling;
  const N* g;
  summed_gradient<N, Real> first, second;
  Real inverse_count;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    auto at = tiling.first_row(span);
    const auto of_first = first.template begin<Size>(tiling, span, inverse_count),
               of_second = second.template begin<Size>(tiling, span, inverse_count);
    for (; at.left > 0; tiling.advance(at)) {
      const vec_16b<N, Size> z(g + at.offset), x(first.t.x + at.offset),
          other(second.t.x + at.offset);
      of_first.store(z, x, first.dx + at.offset);
      of_second.store(z, other, second.dx + at.offset);
    }
  }
};

/// The coefficients of sums over all pixels of `samples` samples; `at` has one group.
template <Number N, class Real, GpuStream S>
void moments_of_sums(const batch_norm_problem& at, int samples, std::size_t lanes,
                     const batch_statistics<Real>& to, const float* sum, const float* squares,
                     S s) {
  const double count = static_cast<double>(at.in.pixels()) * samples;
  for_each(s, lanes, summed_moments_op<N, Real>{to, lanes, count, sum, squares});
}
/// The two sums of each channel that a convolution takes of its output, in memory of the stream.
template <GpuStream S>
class channel_sums {
 public:
  channel_sums(S s, int lanes) : lanes_(static_cast<std::size_t>(lanes)), memory_(s, 2 * lanes_) {}
  [[nodiscard]] float* first() const { return memory_.data(); }
  [[nodiscard]] float* second() const { return memory_.data() + lanes_; }
  /// What they are for: the statistics of y, of this convolution.
  template <Number N, class Real>
  void moments(const convolution_problem& p, int samples, const batch_statistics<Real>& to,
               const N* /*y*/, S s) const {
    moments_of_sums<N>({p.out()}, samples, lanes_, to, first(), second(), s);
  }

 private:
  std::size_t lanes_;
  device::stream_buffer<float, S> memory_;
};
/// Statistics that go to memory of the stream, to time what computes them; null if `to` is.
template <class Real, GpuStream S>
class scratch_statistics {
 public:
  scratch_statistics(batch_statistics<Real> to, S s, int lanes)
      : to_(to), memory_(s, to.saved == nullptr ? 0 : 7 * static_cast<std::size_t>(lanes)) {
    if (to.saved == nullptr) return;
    to_.saved = memory_.data();
    to_.running_mean = memory_.data() + 5 * lanes;
    to_.running_variance = memory_.data() + 6 * lanes;
  }
  [[nodiscard]] const batch_statistics<Real>& get() const { return to_; }

 private:
  batch_statistics<Real> to_;
  device::stream_buffer<Real, S> memory_;
};
/// Makes the coefficients in 16 bits of an input that has none.
template <Number N, class Real, GpuStream S>
void round_coefficients(normalized_input<N, Real>& in, std::size_t lanes, S s) {
  const auto round = [&](const batch_norm_tensors<N, Real>& t, bool& is_rounded) {
    if (!is_rounded) for_each(s, lanes, round_coefficients_op<N, Real>{lanes, t.beta, t.saved});
    is_rounded = true;
  };
  round(in.norm, in.is_rounded);
  if (in.shortcut.x != nullptr) round(in.shortcut, in.is_shortcut_rounded);
}
/// f(the numbers of an access, a constant) for rows of V channels.
template <Number N, class F>
void with_vector_size(int V, const F& f) {
  if (V % vec_16b<N>::size == 0)
    f(std::integral_constant<int, vec_16b<N>::size>{});
  else
    f(std::integral_constant<int, 1>{});
}
/// Stores y unless it is stored; V channels are a block.
template <Number N, class Real, GpuStream S>
void store_normalized(normalized_input<N, Real>& in, int samples, int V, S s) {
  if (std::exchange(in.is_stored, true) || samples == 0) return;
  with_vector_size<N>(V, [&](auto width) {
    constexpr int size = width();
    const batch_norm_tiles tiling(in.problem, samples, V, size);
    const auto normalize = [&]<class Epilogue>(Epilogue, const batch_norm_tensors<N, Real>& t,
                                               const N* residual) {
      s.launch_kernel(tiling.blocks(),
                      normalize_kernel<Epilogue, N, size, Real>{tiling, t, residual});
    };
    if (!in.adds()) return normalize(epilogue::relu{}, in.norm, nullptr);
    if (in.shortcut.x == nullptr) return normalize(epilogue::add_relu{}, in.norm, in.residual);
    auto shortcut = in.shortcut;
    shortcut.y = in.norm.y;  // added in place
    normalize(epilogue::store{}, shortcut, nullptr);
    normalize(epilogue::add_relu{}, in.norm, in.norm.y);
  });
}
/// What the gradient pass of a batch norm would sum of dy, and mask: to time it.
template <class Epilogue, Number N, class Real, GpuStream S>
void sum_gradients(const batch_norm_problem& at, const batch_norm_tensors<N, Real>& t, int samples,
                   std::size_t lanes, N* dy, S s) {
  Real* const nothing = nullptr;
  with_vector_size<N>(static_cast<int>(lanes), [&](auto size) {
    differentiate_batch<size(), Epilogue>(at, static_cast<int>(lanes), samples, t, 0.0, dy, nothing,
                                          nothing, write_mode::overwrite, {}, s,
                                          [](const auto&, auto) {});
  });
}
/// A batch norm's part of a kernel.
template <Number N, class Real>
summed_gradient<N, Real> as_summed(const norm_gradients<N, Real>& of,
                                   const batch_norm_tiles& tiling, write_mode mode) {
  return {of.t,
          of.dx,
          {1, tiling.in.lanes(), nullptr, nullptr, of.dbeta, of.dgamma, mode == write_mode::add}};
}
/// dx and the parameters' gradients from a masked gradient g and its sums; `at` has one group.
template <Number N, int V, class Real, GpuStream S>
void batch_norm_backward_of_sums(const batch_norm_problem& at, int samples, const N* g,
                                 const norm_gradients<N, Real>& of, write_mode mode, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(of.t.x, g, of.dx);
  const batch_norm_tiles tiling(at, samples, V, size);
  const Real inverse_count = Real{1} / static_cast<Real>(tiling.rows_of(0));
  s.launch_kernel(tiling.blocks(), summed_gradient_kernel<N, size, Real>{
                                       tiling, g, as_summed(of, tiling, mode), inverse_count});
}
/// The same of two batch norms whose outputs were added, of which one's dx may be g's memory.
template <Number N, int V, class Real, GpuStream S>
void batch_norm_backward_of_sums(const batch_norm_problem& at, int samples, const N* g,
                                 const norm_gradients<N, Real>& first,
                                 const norm_gradients<N, Real>& second, write_mode mode, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(first.t.x, second.t.x, g, first.dx, second.dx);
  const batch_norm_tiles tiling(at, samples, V, size);
  const Real inverse_count = Real{1} / static_cast<Real>(tiling.rows_of(0));
  s.launch_kernel(tiling.blocks(), dual_summed_gradient_kernel<N, size, Real>{
                                       tiling, g, as_summed(first, tiling, mode),
                                       as_summed(second, tiling, mode), inverse_count});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
