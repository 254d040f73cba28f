// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The factors of one layer's Fisher matrix (Martens and Grosse, 2015; of convolutions Grosse and
// Martens, 2016). Over samples n of inputs a and gradients g of their own loss by the output:
//
//   linear       A = 1/N sum a a^T, a = (x, 1)       G = 1/N sum g g^T
//   convolution  A = 1/N sum a a^T over the pixels' patches, G = 1/(N pixels) sum g g^T over pixels
//   batch norm   no A, F = 1/N sum v v^T of v = (dgamma_n, dbeta_n)
//
// Sums are of doubles, of the lower triangle by rows.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cordee/core/cholesky.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Numbers of the lower triangle of n rows.
constexpr std::size_t triangle_size(std::size_t n) { return n * (n + 1) / 2; }

/// One layer: its gradient as a matrix (rows, columns), and the places of its factors.
struct factored_layer {
  std::size_t segment = 0;            // of its first tensor, in the table
  std::size_t rows = 0, columns = 1;  // the orders of G, and of A: 1 where there is none
  // Element (i, j) is in the first tensor for i < split_row and j < split_column, else the second.
  std::size_t split_row = 0, split_column = 1, first = 0, second = 0;
  std::size_t factors = 0,
              update = 0;  // offsets in a rank's part of the sums, and of the gradients
  int owner = 0;

  [[nodiscard]] bool has_inputs() const { return split_row == rows; }  // else a batch norm
  [[nodiscard]] std::size_t input_size() const { return has_inputs() ? triangle_size(columns) : 0; }
  [[nodiscard]] std::size_t at(std::size_t i, std::size_t j) const {
    if (i >= split_row) return second + (i - split_row);
    return j >= split_column ? second + i : first + i * split_column + j;
  }
};

/// The layers of a table whose factors are known. `whole` numbers its segments, of which `some` are
/// trained.
[[gnu::cold]] inline std::vector<factored_layer> factored_layers(std::span<const segment> whole,
                                                                 std::span<const segment> some) {
  const auto is_trained = [&](const segment& s) {
    for (const segment& t : some)
      if (t.offset == s.offset) return true;
    return false;
  };
  std::vector<factored_layer> layers;
  for (std::size_t k = 0; k < core::count_trainable(whole); ++k) {
    const segment& s = whole[k];
    const segment* const next = k + 1 < whole.size() ? &whole[k + 1] : nullptr;
    const auto rows = static_cast<std::size_t>(s.shape[0]);
    factored_layer layer{.segment = k, .rows = rows, .split_row = rows, .first = s.offset};
    if (rows == 0 || s.size % rows != 0 || !is_trained(s)) continue;  // of a model of its own
    const bool pairs = next != nullptr && next->size == rows && is_trained(*next);
    if (s.kind == kind::weight && s.shape[2] > 0) {  // (K, C, R, S)
      layer.columns = layer.split_column = s.size / rows;
    } else if (s.kind == kind::weight && pairs && next->kind == kind::bias) {
      layer.split_column = s.size / rows;
      layer.columns = layer.split_column + 1;
      layer.second = next->offset;
    } else if (s.kind == kind::scale && pairs && next->kind == kind::shift) {
      layer.rows = 2 * rows;
      layer.second = next->offset;
    } else {
      continue;
    }
    layers.push_back(layer);
  }
  return layers;
}

/// Adds weight * v v^T for vectors v of n numbers to a triangle, several vectors at a time.
class outer_products {
 public:
  outer_products(double* triangle, std::size_t n, double weight)
      : triangle_(triangle), n_(n), weight_(weight), vectors_(most * n) {}
  outer_products(const outer_products&) = delete;
  outer_products& operator=(const outer_products&) = delete;
  ~outer_products() { flush(); }

  /// Memory for the next vector, which is added later.
  double* next() {
    if (count_ == most) flush();
    return vectors_.data() + n_ * count_++;
  }

 private:
  static constexpr std::size_t most = 8;

  void flush() {
    const double* const v = vectors_.data();  // (count_, n)
    double* row = triangle_;
    for (std::size_t i = 0; i < n_; row += ++i)
      ops::simd_for_each<double>(0, i + 1, [=, this](auto c) {
        auto sum = c.zero();
        for (std::size_t k = 0; k < count_; ++k) sum += v[k * n_ + i] * c(v + k * n_);
        c.put(row, c(row) + weight_ * sum);
      });
    count_ = 0;
  }

  double* triangle_;
  std::size_t n_;
  double weight_;
  std::vector<double> vectors_;  // (most, n)
  std::size_t count_ = 0;
};

/// x, (n, m), becomes K^-1 x of the n rows of K: all m columns at once, a register at a time.
inline void solve_columns(const core::cholesky& k, std::size_t n, double* x, std::size_t m) {
  const auto divide = [&](std::size_t i) {
    ops::simd_for_each<double>(
        0, m, [row = x + i * m, by = 1 / k.lower(i, i)](auto c) { c.put(row, by * c(row)); });
  };
  const auto subtract = [&](std::size_t from, double factor, std::size_t other) {
    ops::simd_for_each<double>(0, m, [row = x + from * m, o = x + other * m, factor](auto c) {
      c.put(row, c(row) - factor * c(o));
    });
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t c = 0; c < i; ++c) subtract(i, k.lower(i, c), c);
    divide(i);
  }
  for (std::size_t i = n; i-- > 0;) {
    divide(i);
    for (std::size_t c = 0; c < i; ++c) subtract(c, k.lower(i, c), i);
  }
}

/// Adds the samples' sums to the triangles a and g. `scale` times dy is the gradient of a sample's
/// own loss.
template <class N>
void add_factors(const nn::linear_samples<N>& s, double scale, double* a, double* g) {
  const std::size_t features = s.problem.features, outputs = s.problem.outputs;
  outer_products inputs(a, features + 1, 1), gradients(g, outputs, 1);
  for (std::size_t n = 0; n < static_cast<std::size_t>(s.count); ++n) {
    double* const v = inputs.next();
    for (std::size_t c = 0; c < features; ++c)
      v[c] = static_cast<double>(precision::widened(s.x[n * s.problem.stride + c]));
    v[features] = 1;
    double* const w = gradients.next();
    for (std::size_t k = 0; k < outputs; ++k)
      w[k] = scale * static_cast<double>(precision::widened(s.dy[n * outputs + k]));
  }
}

/// Channel c of pixel (y, x) of sample n in blocks of `block` channels; zero outside of the image.
template <class N>
struct pixel_reader {
  const N* data;
  extent size;
  int block;

  double operator()(int n, int c, int y, int x) const {
    if (y < 0 || x < 0 || y >= size.height || x >= size.width) return 0;
    const int blocks = (size.channels + block - 1) / block;
    const std::size_t row =
        (static_cast<std::size_t>(n * blocks + c / block) * static_cast<std::size_t>(size.height) +
         static_cast<std::size_t>(y)) *
            static_cast<std::size_t>(size.width) +
        static_cast<std::size_t>(x);
    return static_cast<double>(precision::widened(
        data[row * static_cast<std::size_t>(block) + static_cast<std::size_t>(c % block)]));
  }
};

template <class N>
void add_factors(const nn::convolution_samples<N>& s, double scale, double* a, double* g) {
  const convolution_problem& p = s.problem;
  const extent out = p.out();
  const pixel_reader<N> x{s.x, p.in, s.x_block}, dy{s.dy, out, s.dy_block};
  const auto window = p.window * p.window;
  outer_products patches(a, static_cast<std::size_t>(p.in.channels * window), 1);
  outer_products gradients(g, static_cast<std::size_t>(p.filters),
                           1 / static_cast<double>(out.pixels()));
  for (int n = 0; n < s.count; ++n)
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j) {
        double* v = patches.next();  // (C, window, window)
        for (int c = 0; c < p.in.channels; ++c)
          for (int k = 0; k < window; ++k)
            *v++ = x(n, c, i * p.stride - p.padding + k / p.window,
                     j * p.stride - p.padding + k % p.window);
        double* w = gradients.next();
        for (int c = 0; c < p.filters; ++c) *w++ = scale * dy(n, c, i, j);
      }
}

/// Here g is F.
inline void add_factors(const nn::batch_norm_samples& s, double scale, double*, double* g) {
  const auto channels = static_cast<std::size_t>(s.channels);
  outer_products gradients(g, 2 * channels, 1);
  for (std::size_t n = 0; n < static_cast<std::size_t>(s.count); ++n) {
    double* const v = gradients.next();
    for (std::size_t c = 0; c < channels; ++c) {
      v[c] = scale * s.gamma[n * s.pitch + c];
      v[channels + c] = scale * s.beta[n * s.pitch + c];
    }
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
