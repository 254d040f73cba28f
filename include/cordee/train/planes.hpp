// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's memory: the arena's planes by name, and the views of them that rules and reducers get.
#pragma once

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include <cordee/core/protocol.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/segmented.hpp>

namespace cordee::inline CORDEE_ABI {

/// Masters (statistics at the tail), gradients, the slots of a rule O and of a reducer R, and a
/// number or two a segment for norms.
template <class Real, Device D, class O, class R>
class planes {
 public:
  using span = span_on<Real, D>;
  using stream = typename D::stream;
  using rule_view = view<Real, D, O::slots>;
  using run = std::span<const segment>;  // consecutive segments of the table

  planes(const D& device, run table)
      : device_(device),
        table_(table),
        trainables_(table.first(count_trainable(table))),
        arena_(device, table, 2 + O::slots + R::slots),
        kept_(device, arena_.plane_size() - trainable_size()),
        weight_squares_(device, table.size()),
        grad_squares_(device, table.size()),
        sums_(device, table.size()),
        grad_square_(device, 1),
        read_(table.size()) {}

  [[nodiscard]] run table() const { return table_; }
  [[nodiscard]] run trainables() const { return trainables_; }
  [[nodiscard]] std::size_t bytes() const {
    return arena_.plane_size() * static_cast<std::size_t>(arena_.planes()) * sizeof(Real);
  }

  [[nodiscard]] span weights() { return arena_.plane(0); }
  [[nodiscard]] span grads() { return arena_.plane(1); }
  [[nodiscard]] span slot(int k) { return arena_.plane(2 + k); }
  [[nodiscard]] span reducer_slot(int k) { return arena_.plane(2 + O::slots + k); }
  [[nodiscard]] span statistics() { return weights().subspan(trainable_size(), kept_.size()); }

  void clear(span what, stream s) { device_.clear(what.data, what.size * sizeof(Real), s); }
  void copy(span out, span in, stream s) {
    device_.copy(out.data, in.data, in.size * sizeof(Real), s);
  }
  void scale(span what, Real factor, stream s) {
    using cordee::scale;  // and the device's
    scale(what.size, factor, what.data, s);
  }
  /// The running statistics as they are, and back to what they were.
  void keep_statistics(stream s) { copy(kept_.span(), statistics(), s); }
  void restore_statistics(stream s) { copy(statistics(), kept_.span(), s); }

  /// What a reducer gets of one bucket.
  [[nodiscard]] message<Real, D, R::slots> letter(const bucket& b, span said,
                                                  span_on<std::byte, D> scratch) {
    message<Real, D, R::slots> m{&b, said, {}, scratch};
    for (int k = 0; k < R::slots; ++k)
      m.memory[static_cast<std::size_t>(k)] = reducer_slot(k).subspan(b.offset, b.size);
    return m;
  }

  /// What a rule gets of the segments `some`, the first of which is number `first` of the table.
  [[nodiscard]] rule_view sight(run some, std::size_t first, bool finite) {
    const std::size_t start = some.front().offset;
    const std::size_t size = some.back().offset + aligned(some.back().size) - start;
    rule_view v{weights().subspan(start, size), grads().subspan(start, size), {}, some};
    for (int k = 0; k < O::slots; ++k)
      v.slots[static_cast<std::size_t>(k)] = slot(k).subspan(start, size);
    v.weight_squares = weight_squares_.span().subspan(first, some.size());
    v.grad_squares = grad_squares_.span().subspan(first, some.size());
    v.grad_square = grad_square_.span();
    v.sums = sums_.span().subspan(first, some.size());
    v.finite = finite;
    return v;
  }

  /// Fills the squared norms of the gradient (and the weights) of `some`; returns the gradient's
  /// sum.
  double measure(run some, std::size_t first, bool weights_too, stream s) {
    const std::size_t start = some.front().offset, size = some.back().end() - start;
    const auto squares = grad_squares_.span().subspan(first, some.size());
    segmented_squares<Real>(s, some, grads().subspan(start, size), squares);
    if (weights_too)
      segmented_squares<Real>(s, some, weights().subspan(start, size),
                              weight_squares_.span().subspan(first, some.size()));
    double* const read = read_.data() + first;
    device_.copy(read, squares.data, squares.size * sizeof(double), s);
    device_.finish(s);
    return std::accumulate(read, read + squares.size, 0.0);
  }
  /// The first segment whose gradient was not finite when it was measured; else the last one.
  [[nodiscard]] const segment& first_not_finite() const {
    std::size_t k = 0;
    while (k + 1 < trainables_.size() && std::isfinite(read_[k])) ++k;
    return trainables_[k];
  }
  /// The squared norm that rules see as the global one.
  void settle(double grad_square, stream s) {
    device_.copy(grad_square_.span().data, &grad_square, sizeof(double), s);
  }

 private:
  [[nodiscard]] std::size_t trainable_size() const {
    return trainables_.empty() ? 0 : trainables_.back().offset + aligned(trainables_.back().size);
  }

  D device_;
  run table_, trainables_;
  arena<Real, D> arena_;
  buffer<Real, D> kept_;
  buffer<double, D> weight_squares_, grad_squares_, sums_, grad_square_;
  std::vector<double> read_;  // the gradient's squares where the host can see them
};

}  // namespace cordee::inline CORDEE_ABI
