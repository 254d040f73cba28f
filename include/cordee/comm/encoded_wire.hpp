// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Hops that carry every number in a narrower precision P.
//
//   said = encode(x, k), k = fit(max |x|) of each piece;  lost <- lost + (x - decode(said, k))
//
// A piece is what one segment has of one block: gradients of different layers differ by orders of
// magnitude, so each has a scale of its own, and a value that is not finite spoils its own piece
// alone, which the trainer then names. Scales travel in front of their block, in the same message.
// Means are encoded once, by the rank that owns the sum, and passed on verbatim: all ranks decode
// the same bytes, their owner too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <cordee/comm/wire.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Sizes of what travels: a scale (where there is one), and the multiple that keeps both aligned.
template <Precision P>
struct encoded {
  using storage = typename P::storage;
  using scaling = typename P::scaling;
  static constexpr std::size_t unit = std::max(alignof(storage), alignof(scaling));
  static constexpr std::size_t scale_bytes =
      std::is_empty_v<scaling> ? 0 : (sizeof(scaling) + unit - 1) / unit * unit;
};

/// The largest |x|; what is not finite is larger than all that is, for bits are compared.
template <class Master, class Real>
Master largest(const Real* x, std::size_t n) {
  using bits = std::conditional_t<sizeof(Master) == 4, std::uint32_t, std::uint64_t>;
  constexpr bits magnitude = std::numeric_limits<bits>::max() >> 1;
  bits most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bits b = std::bit_cast<bits>(static_cast<Master>(x[i])) & magnitude;
    most = b > most ? b : most;
  }
  return std::bit_cast<Master>(most);
}

}  // namespace detail

/// q <- x in P, with a scale for all, which k takes; lost <- lost + weight (x - what q says).
template <Precision P, class Real>
void encode(std::size_t n, const Real* x, Real weight, typename P::storage* q,
            typename P::scaling* k, Real* lost, cpu::stream s) {
  const auto by = P::fit(detail::largest<typename P::master>(x, n));
  if constexpr (!std::is_empty_v<typename P::scaling>) *k = by;
  for_each(s, n, [=](std::size_t i) {
    q[i] = P::encode(static_cast<typename P::master>(x[i]), by);
    lost[i] += (x[i] - static_cast<Real>(P::decode(q[i], by))) * weight;
  });
}

/// x <- what q says, or x + that.
template <Precision P, class Real>
void decode(std::size_t n, const typename P::storage* q, const typename P::scaling* k, Real* x,
            into how, cpu::stream s) {
  typename P::scaling by{};
  if constexpr (!std::is_empty_v<typename P::scaling>) by = *k;
  if (how == into::add)
    for_each(s, n, [=](std::size_t i) { x[i] = x[i] + static_cast<Real>(P::decode(q[i], by)); });
  else
    for_each(s, n, [=](std::size_t i) { x[i] = static_cast<Real>(P::decode(q[i], by)); });
}

/// What encoded_wire wants of scratch for n numbers in `count` blocks: what is said, what is heard.
template <Precision P>
constexpr std::size_t encoded_scratch(std::size_t n, int count) {
  using sizes = detail::encoded<P>;
  const auto pieces = n / segment_alignment + 2 * static_cast<std::size_t>(count) + 1;
  return 2 * (n * sizeof(typename P::storage) + pieces * (sizes::scale_bytes + sizes::unit));
}

/// `lost` gathers what this rank's encodings lost, in units of its own contribution to the sum:
/// added to the next one, it is said after all.
template <Precision P, class Link, class Real, Device D>
class encoded_wire {
  using storage = typename P::storage;
  using scaling = typename P::scaling;

 public:
  encoded_wire(const Link& link, const bucket* which, span_on<Real, D> what,
               span_on<std::byte, D> scratch, span_on<Real, D> lost, int count,
               typename D::stream s)
      : link_(link), what_(what), lost_(lost), s_(s) {
    for (int b = 0; b <= count; ++b) {
      block_.push_back({pieces_.size(), size_});
      if (b < count)
        lay_out(which, block_start(what.size, b, count), block_start(what.size, b + 1, count));
    }
    said_ = scratch.data;
    heard_ = scratch.data + size_;
    expects(scratch.size >= 2 * size_, "encoded_wire: scratch is too short");
  }

  [[nodiscard]] int count() const { return static_cast<int>(block_.size()) - 1; }

  void add(int next, blocks said, int before, blocks sum, int holders = 1) {
    if (next != nobody) write(said, Real{1} / static_cast<Real>(holders));
    exchange(next, image(said_, said), before, image(heard_, sum));
    if (before == nobody) return;
    const bool crossing = next != nobody && said.first < sum.last && sum.first < said.last;
    each_piece(sum, [&](const piece& part) {
      if (crossing) read(said_, part, into::overwrite);  // the peer adds what I said, so I do too
      read(heard_, part, into::add);
    });
  }

  void finish(blocks own, int ranks, int holders = 1) {
    const auto p = static_cast<Real>(ranks);
    each_piece(own, [&](const piece& part) {
      divide(part.last - part.first, p, what_.data + part.first, s_);
    });
    write(own, p / static_cast<Real>(holders));  // a loss of the mean is p losses of the sum
  }

  void pass(int next, blocks said, int before, blocks heard) {
    exchange(next, image(said_, said), before, image(said_, heard));
  }

  void open() {
    each_piece({0, count()}, [&](const piece& part) { read(said_, part, into::overwrite); });
  }

 private:
  struct piece {
    std::size_t first, last;     // numbers of the message
    std::size_t scale, numbers;  // bytes of an image of encoded blocks
  };
  struct block {
    std::size_t piece, byte;  // its first ones
  };

  static constexpr std::size_t unit = detail::encoded<P>::unit;
  static constexpr std::size_t scale_bytes = detail::encoded<P>::scale_bytes;
  static constexpr std::size_t padded(std::size_t n) { return (n + unit - 1) / unit * unit; }

  // One more block, numbers first .. last-1, cut where a segment begins.
  void lay_out(const bucket* which, std::size_t first, std::size_t last) {
    const std::size_t before = pieces_.size();
    std::size_t from = first;
    const auto piece_to = [&](std::size_t to) {
      if (to <= from || to > last) return;
      pieces_.push_back({from, to, 0, 0});
      from = to;
    };
    if (which != nullptr)
      for (const segment& part : which->segments) piece_to(part.offset - which->offset);
    piece_to(last);
    const std::size_t scales = scale_bytes * (pieces_.size() - before);
    for (std::size_t k = before; k < pieces_.size(); ++k) {
      pieces_[k].scale = size_ + scale_bytes * (k - before);
      pieces_[k].numbers = size_ + scales + sizeof(storage) * (pieces_[k].first - first);
    }
    size_ += padded(scales + sizeof(storage) * (last - first));
  }

  template <class F>
  void each_piece(blocks range, const F& f) const {
    for (std::size_t k = at(range.first).piece; k < at(range.last).piece; ++k) f(pieces_[k]);
  }
  [[nodiscard]] const block& at(int b) const { return block_[static_cast<std::size_t>(b)]; }

  // Where the numbers of a piece lie in an image, and their scale.
  static storage* numbers(std::byte* image, const piece& part) {
    return reinterpret_cast<storage*>(image + part.numbers);
  }
  static scaling* scale(std::byte* image, const piece& part) {
    return reinterpret_cast<scaling*>(image + part.scale);
  }

  void write(blocks range, Real weight) {
    using cordee::encode;  // and the device's
    each_piece(range, [&](const piece& part) {
      encode<P>(part.last - part.first, what_.data + part.first, weight, numbers(said_, part),
                scale(said_, part), lost_.data + part.first, s_);
    });
  }
  void read(std::byte* of, const piece& part, into how) const {
    using cordee::decode;  // and the device's
    decode<P>(part.last - part.first, numbers(of, part), scale(of, part), what_.data + part.first,
              how, s_);
  }

  [[nodiscard]] span_on<std::byte, D> image(std::byte* of, blocks b) const {
    return {of + at(b.first).byte, at(b.last).byte - at(b.first).byte};
  }
  void exchange(int next, span_on<std::byte, D> said, int before,
                span_on<std::byte, D> heard) const {
    detail::hop<D>(next, const_bytes(said), before, heard,
                   [&](auto out, auto in) { link_.exchange(out, in, s_); });
  }

  const Link& link_;
  span_on<Real, D> what_, lost_;
  typename D::stream s_;
  std::vector<piece> pieces_;
  std::vector<block> block_;  // and one that ends the last
  std::size_t size_ = 0;
  std::byte *said_ = nullptr, *heard_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI
