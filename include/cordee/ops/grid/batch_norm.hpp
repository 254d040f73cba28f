// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation as grids: what ops/batch_norm.hpp computes, in two passes over the
// activations each way, and between them one over what their chunks left.
//
// A chunk gives its mean and squared deviations, from sums over x - x[0] in wide, and these are
// merged in double precision in the order of the chunks.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/batch_norm.hpp>
#include <cordee/ops/grid/batch_norm_merge.hpp>
#include <cordee/ops/grid/batch_norm_ranks.hpp>
#include <cordee/ops/grid/batch_norm_tiles.hpp>
#include <cordee/ops/grid/pack.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A channel's coefficients for a pack.
template <Number N, class Real>
CORDEE_DEVICE pack<N> spread(const Real* row, int width) {
  pack<N> out;
  for (int k = 0; k < out.size; ++k)
    if (k < width) out.at[k] = static_cast<wide<N>>(row[k]);
  return out;
}

/// The gradient behind the epilogue: zero where the ReLU gave nothing.
template <class Epilogue, Number N>
CORDEE_DEVICE pack<N> gradient_behind(const N* dy, const N* y, int width) {
  pack<N> g(dy, width);
  if constexpr (!std::same_as<Epilogue, epilogue::store>) {
    const pack<N> out(y, width);
    for (int k = 0; k < g.size; ++k) g.at[k] = out.at[k] > 0 ? g.at[k] : wide<N>{0};
  }
  return g;
}

/// Mean and sum of squared deviations of every chunk.
template <Number N>
struct chunk_moments {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles to;
  const N* x;
  double *means, *deviations;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_bytes<N>; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto my = to.share_of(b.index(), b.thread());
    pack<N> origin, sum, square;
    if (my.start < my.last) origin = pack<N>(x + to.offset(my, my.first), to.width);
    for (std::size_t row = my.start; row < my.last; row += to.down) {
      const pack<N> z(x + to.offset(my, row), to.width);
      for (int k = 0; k < z.size; ++k) {
        const wide<N> d = z.at[k] - origin.at[k];
        sum.at[k] += d;
        square.at[k] += d * d;
      }
    }
    add_down(b, to, sum, square);
    if (!my.works || my.slot != 0 || my.first >= my.last) return;
    const std::size_t entry = to.entry(my.group, my.chunk, my.lane);
    for (int k = 0; k < sum.size; ++k)
      if (k < to.width) {
        const double shift =
            static_cast<double>(sum.at[k]) / static_cast<double>(my.last - my.first);
        const double m2 =
            static_cast<double>(square.at[k]) - static_cast<double>(sum.at[k]) * shift;
        means[entry + static_cast<std::size_t>(k)] = static_cast<double>(origin.at[k]) + shift;
        deviations[entry + static_cast<std::size_t>(k)] = m2 < 0 ? 0 : m2;  // no number stays so
      }
  }
};

/// y <- f((x - centre) scale + beta (+ residual)), with the rows of each group.
template <class Epilogue, Number N, class Real>
struct apply_rows_body {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr bool independent = true;
  batch_norm_tiles to;
  batch_norm_tensors<N, Real> t;
  const N* residual;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto my = to.share_of(b.index(), b.thread());
    if (my.start >= my.last) return;
    const batch_norm_rows<Real> row(t.saved, to.in.lanes(), my.group);
    const auto centre = spread<N>(row.centre + my.lane, to.width),
               scale = spread<N>(row.scale + my.lane, to.width),
               beta = spread<N>(t.beta + my.lane, to.width);
    for (std::size_t r = my.start; r < my.last; r += to.down) {
      const std::size_t here = to.offset(my, r);
      pack<N> z(t.x + here, to.width), more;
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>)
        more = pack<N>(residual + here, to.width);
      for (int k = 0; k < z.size; ++k) {
        z.at[k] = (z.at[k] - centre.at[k]) * scale.at[k] + beta.at[k] + more.at[k];
        if constexpr (!std::same_as<Epilogue, epilogue::store>)
          z.at[k] = z.at[k] < 0 ? wide<N>{0} : z.at[k];
      }
      z.store(t.y + here, to.width);
    }
  }
};

/// sum(g) and sum(g h) of every chunk; where a residual was added, g takes dy's place, since it is
/// also what the residual receives.
template <class Epilogue, Number N, class Real>
struct chunk_sums {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles to;
  batch_norm_tensors<N, Real> t;
  N* dy;
  double *shifts, *scales;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_bytes<N>; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto my = to.share_of(b.index(), b.thread());
    const batch_norm_rows<Real> row(t.saved, to.in.lanes(), my.group);
    pack<N> centre, sum, product;
    if (my.works) centre = spread<N>(row.centre + my.lane, to.width);
    for (std::size_t r = my.start; r < my.last; r += to.down) {
      const std::size_t here = to.offset(my, r);
      const auto g = gradient_behind<Epilogue>(dy + here, t.y + here, to.width);
      const pack<N> z(t.x + here, to.width);
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) g.store(dy + here, to.width);
      for (int k = 0; k < g.size; ++k) {
        sum.at[k] += g.at[k];
        product.at[k] += g.at[k] * (z.at[k] - centre.at[k]);
      }
    }
    add_down(b, to, sum, product);
    if (!my.works || my.slot != 0) return;
    const std::size_t entry = to.entry(my.group, my.chunk, my.lane);
    for (int k = 0; k < sum.size; ++k)
      if (k < to.width) {
        const auto i = static_cast<std::size_t>(k);
        shifts[entry + i] = static_cast<double>(sum.at[k]);
        scales[entry + i] =
            static_cast<double>(product.at[k]) * static_cast<double>(row.inverse[my.lane + i]);
      }
  }
};

/// dx <- scale g - shift - (x - centre) slope; dx may be dy.
template <class Epilogue, Number N, class Real>
struct input_gradient {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr bool independent = true;
  batch_norm_tiles to;
  batch_norm_tensors<N, Real> t;
  const N* dy;
  N* dx;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto my = to.share_of(b.index(), b.thread());
    if (my.start >= my.last) return;
    const batch_norm_rows<Real> row(t.saved, to.in.lanes(), my.group);
    const auto centre = spread<N>(row.centre + my.lane, to.width),
               scale = spread<N>(row.scale + my.lane, to.width),
               shift = spread<N>(row.shift + my.lane, to.width),
               slope = spread<N>(row.slope + my.lane, to.width);
    for (std::size_t r = my.start; r < my.last; r += to.down) {
      const std::size_t here = to.offset(my, r);
      auto g = gradient_behind<Epilogue>(dy + here, t.y + here, to.width);
      const pack<N> z(t.x + here, to.width);
      for (int k = 0; k < g.size; ++k)
        g.at[k] = scale.at[k] * g.at[k] - shift.at[k] - (z.at[k] - centre.at[k]) * slope.at[k];
      g.store(dx + here, to.width);
    }
  }
};

inline void refuse_groups(const batch_norm_problem& at, int samples, const combine_sums& combine) {
  expects(!combine || at.groups(samples) <= 1,
          "batch_norm: statistics shared by ranks are taken over whole batches; use group 0");
}

}  // namespace detail

/// Training: normalises by the batch and moves the running statistics towards it, towards the mean
/// of the groups' where there are several. Returns the number of values a channel's statistics
/// stand for. It works in memory lent by the stream and not in `scratch`.
template <Number N, int V, class Epilogue, class Real, GridStream S>
double batch_norm_forward(const batch_norm_problem& at, int samples,
                          const batch_norm_tensors<N, Real>& t, const N* residual,
                          Real* running_mean, Real* running_variance, const combine_sums& combine,
                          S s) {
  detail::refuse_groups(at, samples, combine);
  if (samples == 0 && !combine) return 0;
  if (samples == 0)  // the others wait for us
    return detail::share_moments<Real>(static_cast<std::size_t>(at.at.channels), at.lanes_of(V), 0,
                                       t.gamma, t.saved, nullptr, combine, s);
  const detail::batch_norm_tiles to(at, samples, V, detail::pack_width<N>(V, t.x, t.y, residual));
  const std::size_t lanes = to.in.lanes(), table = to.groups * lanes;
  const lent<double, S> chunks(s, 2 * to.table()), statistics(s, 2 * table);
  double *means = chunks.data(), *deviations = means + to.table();
  double *mean = statistics.data(), *variance = mean + table;
  s.launch(to.blocks(), detail::chunk_moments<N>{to, t.x, means, deviations});
  s.launch(
      detail::merge_tile::blocks(to),
      detail::merge_chunk_moments<Real>{to, t.gamma, t.saved, means, deviations, mean, variance});
  auto count = static_cast<double>(to.rows_of(to.groups - 1));
  if (combine)
    count = detail::share_moments<Real>(to.in.channels, lanes, count, t.gamma, t.saved, mean,
                                        combine, s);
  for_each(
      s, to.in.channels,
      detail::running_step<Real>{to.groups, lanes, mean, variance, running_mean, running_variance});
  s.launch(to.blocks(), detail::apply_rows_body<Epilogue, N, Real>{to, t, residual});
  return count;
}

/// Evaluation, and training with frozen statistics: normalises by the running ones.
template <Number N, int V, class Epilogue, class Real, GridStream S>
void batch_norm_evaluate(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, const N* residual,
                         const Real* running_mean, const Real* running_variance, S s) {
  const detail::batch_norm_tiles to({at.at, 0}, samples, V,  // one group, one table of rows
                                    detail::pack_width<N>(V, t.x, t.y, residual));
  for_each(s, to.in.lanes(),
           detail::evaluation_rows<Real>{to.in.channels, to.in.lanes(), t.gamma, running_mean,
                                         running_variance, t.saved});
  s.launch(to.blocks(), detail::apply_rows_body<Epilogue, N, Real>{to, t, residual});
}

/// dx from dy, which may be the same memory unless a residual was added: then dy becomes what the
/// residual receives. `count` is what forward returned, or `constant` as on the CPU; without ranks
/// that share statistics the problem says it.
template <Number N, int V, class Epilogue, class Real, GridStream S>
void batch_norm_backward(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, N* dx,
                         Real* dgamma, Real* dbeta, into mode, const combine_sums& combine, S s) {
  detail::refuse_groups(at, samples, combine);
  const detail::batch_norm_tiles to(at, samples, V, detail::pack_width<N>(V, t.x, t.y, dy, dx));
  const std::size_t lanes = to.in.lanes(), table = to.groups * lanes;
  const lent<double, S> chunks(s, 2 * to.table()), sums(s, 2 * table);
  double *shifts = chunks.data(), *scales = shifts + to.table();
  double *shift = sums.data(), *scale = shift + table;
  s.launch(to.blocks(), detail::chunk_sums<Epilogue, N, Real>{to, t, dy, shifts, scales});
  s.launch(detail::merge_tile::blocks(to),
           detail::merge_chunk_sums<Real>{to, t.gamma, t.saved, shifts, scales, shift, scale,
                                          count == at.constant});
  for_each(s, to.in.channels,
           detail::gradient_step<Real>{to.groups, lanes, shift, scale, dbeta, dgamma,
                                       mode == into::add});
  if (combine)
    detail::share_sums<Real>(to.in.channels, lanes, count, t.gamma, t.saved,
                             samples == 0 ? nullptr : shift, combine, s);
  // Where a residual was added dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  s.launch(to.blocks(), detail::input_gradient<rest, N, Real>{to, t, dy, dx});
}

}  // namespace cordee::inline CORDEE_ABI
