// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's memory: the arena's planes by name, the views of them that rules and reducers get, and
// the account of the step.
#pragma once

#include <cmath>
#include <span>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/gated.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/train/account.hpp>

namespace cordee::inline CORDEE_ABI {

/// Masters (statistics at the tail), gradients, the slots of a rule O and of a reducer R, and a
/// number or two a segment for norms.
template <class Real, Device D, class O, class R>
class planes {
 public:
  using span = span_on<Real, D>;
  using stream = typename D::stream;
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
        account_(device, 1) {}

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
  /// A step begins: nothing is known of it, and the running statistics are as they are.
  void begin(const moment& now, stream s) {
    once(s, detail::opens_account{now, account_.span().data});
    copy(kept_.span(), statistics(), s);
  }

  /// The scale of the first step's loss; from here on it is the account's.
  float begin_scaling(const loss_scaling& by, stream s) {
    account fresh;
    fresh.scale = loss_scale::first(by);
    fresh.unscale = fresh.scale.inverse();
    device_.copy(account_.span().data, &fresh, sizeof(fresh), s);
    return fresh.scale.value;
  }
  /// Where kernels find that of the step.
  [[nodiscard]] span_on<const float, D> scale() const {
    return {&account_.span().data->scale.value, 1};
  }
  /// A gradient as it would be without.
  void unscale(span what, stream s) {
    using cordee::scale;  // and the device's
    const float* const by = &account_.span().data->unscale;
    if constexpr (D::host_memory)
      scale(what.size, static_cast<Real>(*by), what.data, s);
    else
      scale(what.size, by, what.data, s);
  }
  /// All looks have been made: what they say of the next step's.
  void rescale(const loss_scaling& by, stream s) {
    once(s, detail::rescales{by, account_.span().data});
  }

  /// What a reducer gets of one bucket.
  [[nodiscard]] message<Real, D, R::slots> letter(const bucket& b, span said,
                                                  span_on<std::byte, D> scratch) {
    message<Real, D, R::slots> m{&b, said, {}, scratch};
    for (int k = 0; k < R::slots; ++k)
      m.memory[static_cast<std::size_t>(k)] = reducer_slot(k).subspan(b.offset, b.size);
    return m;
  }

  /// Tells the first weights to a reducer that wants to know them.
  void introduce(const R& reducer, std::span<const bucket> buckets, stream s) {
    if constexpr (BeginsOn<R, Real, D>)
      for (const bucket& b : buckets)
        reducer.begin(letter(b, weights().subspan(b.offset, b.size), {}), s);
  }

  /// What a rule gets of the segments `some`, the first of which is number `first` of the table.
  template <class To = D>
  [[nodiscard]] view<Real, To, O::slots> sight(run some, std::size_t first, bool finite) {
    const std::size_t start = some.front().offset;
    const std::size_t size = some.back().offset + aligned(some.back().size) - start;
    const auto numbers = [&](span of) { return span_on<Real, To>{of.data + start, size}; };
    const auto one_each = [&](buffer<double, D>& of) {
      return span_on<double, To>{of.span().data + first, some.size()};
    };
    view<Real, To, O::slots> v{numbers(weights()), numbers(grads()), {}, some};
    for (int k = 0; k < O::slots; ++k) v.slots[static_cast<std::size_t>(k)] = numbers(slot(k));
    v.weight_squares = one_each(weight_squares_);
    v.grad_squares = one_each(grad_squares_);
    v.grad_square = {&account_.span().data->grad_square, 1};
    v.sums = one_each(sums_);
    v.finite = finite;
    v.now = {&account_.span().data->now, 1};
    return v;
  }

  /// Fills the squared norms of the gradient (and the weights) of `some`.
  void measure(run some, std::size_t first, bool weights_too, stream s) {
    const std::size_t start = some.front().offset, size = some.back().end() - start;
    const auto squares_of = [&](span x, buffer<double, D>& to) {
      segmented_squares<Real>(s, some, x.subspan(start, size),
                              to.span().subspan(first, some.size()));
    };
    squares_of(grads(), grad_squares_);
    if (weights_too) squares_of(weights(), weight_squares_);
  }
  /// Enters them in the account. All or nothing: a sum that is not finite stands there too.
  void tally(run some, std::size_t first, bool all_or_nothing, stream s) {
    once(s, detail::tallies{grad_squares_.span().data + first, some.size(), all_or_nothing,
                            account_.span().data});
  }
  /// The account as it stands when the stream is there.
  [[nodiscard]] account found(stream s) const {
    if constexpr (D::host_memory)
      return account_.span()[0];
    else
      return on_host(device_, account_.span(), s)[0];
  }

  /// A bucket counts as zero if the last look found it spoilt.
  void clear_if_spoilt(span bucket, stream s) { replace(last_spoilt(), bucket, {}, s); }
  /// The statistics are what they were, if any look did; of a step that is not made a reducer
  /// remembers nothing.
  void undo_if_spoilt(bool no_step, stream s) {
    replace(any_spoilt(), statistics(), kept_.span(), s);
    for (int k = 0; no_step && k < R::slots; ++k) replace(any_spoilt(), reducer_slot(k), {}, s);
  }

  /// f(a view of all that trains, a stream): where a look found what is not finite nothing comes of
  /// it. The host need not know, if memory is not its own.
  template <class F>
  void unless_spoilt(stream s, const F& f) {
    if constexpr (!D::host_memory)
      f(sight<gated<D>>(trainables_, 0, true), typename gated<D>::stream{s, any_spoilt()});
    else if (*any_spoilt() == 0)
      f(sight(trainables_, 0, true), s);
  }

  /// The first segment whose gradient was not finite when it was measured; else the last one.
  [[nodiscard]] const segment& first_not_finite(stream s) const {
    const auto squares = on_host(device_, grad_squares_.span(), s);
    std::size_t k = 0;
    while (k + 1 < trainables_.size() && std::isfinite(squares[k])) ++k;
    return trainables_[k];
  }

 private:
  [[nodiscard]] std::size_t trainable_size() const {
    return trainables_.empty() ? 0 : trainables_.back().offset + aligned(trainables_.back().size);
  }

  [[nodiscard]] const std::int32_t* any_spoilt() const { return &account_.span().data->spoils; }
  [[nodiscard]] const std::int32_t* last_spoilt() const { return &account_.span().data->spoilt; }

  // to <- from, or zero, where the flag is raised
  void replace(const std::int32_t* flag, span to, span_on<const Real, D> from, stream s) {
    if constexpr (!D::host_memory)
      for_each(s, to.size, detail::replaces<Real>{flag, from.data, to.data});
    else if (*flag == 0)
      return;
    else if (from.empty())
      clear(to, s);
    else
      device_.copy(to.data, from.data, to.size * sizeof(Real), s);
  }

  D device_;
  run table_, trainables_;
  arena<Real, D> arena_;
  buffer<Real, D> kept_;
  buffer<double, D> weight_squares_, grad_squares_, sums_;
  buffer<account, D> account_;
};

}  // namespace cordee::inline CORDEE_ABI
