// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a method's hops are made of. A method (ring, tree, ...) says who tells whom which blocks; a
// wire says what a block is on its way: here the numbers themselves, in encoded_wire.hpp narrower
// ones. So each method is written once.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <cordee/comm/transport.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

/// Blocks first .. last-1 of a message.
struct blocks {
  int first, last;
};

/// Where block `i` of `count` begins in n numbers; sizes differ by at most one.
constexpr std::size_t block_start(std::size_t n, int i, int count) {
  return n * static_cast<std::size_t>(i) / static_cast<std::size_t>(count);
}

/// The peer of a hop that only hears, or only tells.
inline constexpr int nobody = -1;

namespace detail {

/// One message each way, or one way.
template <Device D, class Exchange>
void hop(int next, span_on<const std::byte, D> said, int before, span_on<std::byte, D> heard,
         const Exchange& exchange) {
  const to<D> out{next, said};
  const from<D> in{before, heard};
  exchange(std::span<const to<D>>(&out, next == nobody ? 0 : 1),
           std::span<const from<D>>(&in, before == nobody ? 0 : 1));
}

}  // namespace detail

/// The numbers themselves. What is heard into the scratch is added when the sum is next needed: the
/// last part of it in one pass with the division.
template <class Link, class Real, Device D>
class plain_wire {
 public:
  plain_wire(const Link& link, span_on<Real, D> what, span_on<std::byte, D> scratch, int count,
             typename D::stream s)
      : link_(link), what_(what), scratch_(scratch), count_(count), s_(s) {}

  /// Blocks of the message.
  [[nodiscard]] int count() const { return count_; }

  /// Tells `next` the numbers of `said` and adds what `before` tells to `sum`, where it stands once
  /// the wire is told more, or `open`. (`holders`: on how many ranks the same numbers stand; a wire
  /// that rounds shares its loss among them.)
  void add(int next, blocks said, int before, blocks sum, int holders = 1) {
    (void)holders;
    settle();
    const auto mine = at(said), total = at(sum);
    if constexpr (AddsOn<Link, Real, D>) {
      // A peer that reads what I am adding to would hear neither one nor the other.
      const bool crossing =
          next != nobody && before != nobody && said.first < sum.last && sum.first < said.last;
      if (!crossing)
        return detail::hop<D>(
            next, const_bytes(mine), before, bytes(total),
            [&](auto out, auto in) { link_.template exchange_add<Real>(out, in, s_); });
    }
    if (before != nobody) owed_ = total;
    exchange(next, mine, before, {heard(), owed_.size});
  }

  /// `own` holds the sum over all ranks, and becomes the mean.
  void finish(blocks own, int ranks, int holders = 1) {
    (void)holders;
    const auto p = static_cast<Real>(ranks);
    const auto sum = at(own);
    if (owed_ == sum) {
      divide_sum(sum.size, p, heard(), sum.data, s_);
      owed_ = {};
    } else {
      settle();
      divide(sum.size, p, sum.data, s_);
    }
  }

  /// Tells `next` the mean of `said` and takes from `before` that of `heard`.
  void pass(int next, blocks said, int before, blocks heard) {
    settle();
    exchange(next, at(said), before, at(heard));
  }

  /// Every block's mean has been passed.
  void open() { settle(); }

 private:
  void settle() {
    if (owed_.empty()) return;
    using cordee::add;  // and the device's
    add(owed_.size, heard(), owed_.data, s_);
    owed_ = {};
  }
  [[nodiscard]] Real* heard() const { return reinterpret_cast<Real*>(scratch_.data); }
  [[nodiscard]] span_on<Real, D> at(blocks b) const {
    const std::size_t first = block_start(what_.size, b.first, count_);
    return what_.subspan(first, block_start(what_.size, b.last, count_) - first);
  }
  void exchange(int next, span_on<Real, D> said, int before, span_on<Real, D> heard) const {
    detail::hop<D>(next, const_bytes(said), before, bytes(heard),
                   [&](auto out, auto in) { link_.exchange(out, in, s_); });
  }

  const Link& link_;
  span_on<Real, D> what_;
  span_on<std::byte, D> scratch_;
  int count_;
  typename D::stream s_;
  span_on<Real, D> owed_{};  // what was heard belongs here
};

}  // namespace cordee::inline CORDEE_ABI
