// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Hops that carry every number in a narrower precision P.
//
//   q = encode(x, k), k = fit(max |x|) of each block;  lost <- lost + (x - decode(q, k))
//
// A block is the intersection of a segment with a chunk: gradients of different layers differ by
// orders of magnitude, so each has a scale of its own, and NaN or infinity spoils its own block
// alone, which the trainer then names. Scales travel in front of their chunk, in the same message.
// Means are encoded once, by the rank that owns the sum, and passed on verbatim: all ranks decode
// the same bytes, the owner too.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Sizes in an encoded chunk: bytes of a block's scale (0 where P has none), and the alignment that
/// scales and numbers need.
template <Precision P>
struct encoded_layout {
  using storage = typename P::storage;
  using scaling = typename P::scaling;
  static constexpr std::size_t alignment = std::max(alignof(storage), alignof(scaling));
  static constexpr std::size_t scale_bytes =
      std::is_empty_v<scaling> ? 0 : (sizeof(scaling) + alignment - 1) / alignment * alignment;
};

/// max |x|; bits are compared, so NaN and infinity exceed every finite number.
template <class Master, class Real>
Master largest_magnitude(const Real* x, std::size_t n) {
  using bits = std::conditional_t<sizeof(Master) == 4, std::uint32_t, std::uint64_t>;
  constexpr bits magnitude = core::limits<bits>::max() >> 1;
  bits largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bits b = std::bit_cast<bits>(static_cast<Master>(x[i])) & magnitude;
    largest = b > largest ? b : largest;
  }
  return std::bit_cast<Master>(largest);
}

/// q <- x in P, with one scale *k for all;  lost <- lost + weight (x - decoded q).
template <Precision P, class Real>
void encode(std::size_t n, const Real* x, Real weight, typename P::storage* q,
            typename P::scaling* k, Real* lost, cpu::stream s) {
  const auto scale = P::fit(largest_magnitude<typename P::master>(x, n));
  if constexpr (!std::is_empty_v<typename P::scaling>) *k = scale;
  for_each(s, n, [=](std::size_t i) {
    q[i] = P::encode(static_cast<typename P::master>(x[i]), scale);
    lost[i] += (x[i] - static_cast<Real>(P::decode(q[i], scale))) * weight;
  });
}

/// x <- decoded q, or x + decoded q.
template <Precision P, class Real>
void decode(std::size_t n, const typename P::storage* q, const typename P::scaling* k, Real* x,
            write_mode mode, cpu::stream s) {
  typename P::scaling scale{};
  if constexpr (!std::is_empty_v<typename P::scaling>) scale = *k;
  if (mode == write_mode::add)
    for_each(s, n, [=](std::size_t i) { x[i] = x[i] + static_cast<Real>(P::decode(q[i], scale)); });
  else
    for_each(s, n, [=](std::size_t i) { x[i] = static_cast<Real>(P::decode(q[i], scale)); });
}

/// Bytes of scratch of an encoded_wire for n numbers in `count` chunks: the encoded message that is
/// sent, and the one that is received.
template <Precision P>
constexpr std::size_t encoded_scratch(std::size_t n, int count) {
  using layout = encoded_layout<P>;
  const auto blocks = n / detail::core::segment_alignment + 2 * static_cast<std::size_t>(count) + 1;
  return 2 * (n * sizeof(typename P::storage) + blocks * (layout::scale_bytes + layout::alignment));
}

/// Has plain_wire's members. `lost` accumulates what this rank's encodings lost, in units of its
/// own contribution to the sum.
template <Precision P, class Communicator, class Real, Device D>
class encoded_wire {
  using storage = typename P::storage;
  using scaling = typename P::scaling;

 public:
  /// Requires: `scratch` has encoded_scratch<P>(values.size, count) bytes; `layout`, if given, is
  /// the bucket of `values`, whose segments then have scales of their own.
  encoded_wire(const Communicator& comm, const bucket* layout, span_on<Real, D> values,
               span_on<std::byte, D> scratch, span_on<Real, D> lost, int count,
               typename D::stream s)
      : comm_(comm), values_(values), lost_(lost), stream_(s) {
    for (int c = 0; c <= count; ++c) {
      chunks_.push_back({blocks_.size(), size_});
      if (c < count)
        append_chunk(layout, chunk_start(values.size, c, count),
                     chunk_start(values.size, c + 1, count));
    }
    sent_ = scratch.data;
    received_ = scratch.data + size_;
    expects(scratch.size >= 2 * size_, "encoded_wire: scratch is too short");
  }

  [[nodiscard]] int count() const { return static_cast<int>(chunks_.size()) - 1; }

  void add(int next, chunk_range sent, int previous, chunk_range sum, int holders = 1) {
    if (next != no_peer) encode_range(sent, Real{1} / static_cast<Real>(holders));
    exchange(next, bytes_of(sent_, sent), previous, bytes_of(received_, sum));
    if (previous == no_peer) return;
    const bool overlap = next != no_peer && sent.first < sum.last && sum.first < sent.last;
    for_each_block(sum, [&](const scaled_block& block) {
      if (overlap)  // the peer adds this rank's encoded numbers, so this rank adds them too
        decode_block(sent_, block, write_mode::overwrite);
      decode_block(received_, block, write_mode::add);
    });
  }

  void average(chunk_range own, int ranks, int holders = 1) {
    const auto p = static_cast<Real>(ranks);
    for_each_block(own, [&](const scaled_block& block) {
      // for a GPU by argument-dependent lookup: ops/gpu/reduce.hpp
      divide(block.last - block.first, p, values_.data + block.first, stream_);
    });
    encode_range(own, p / static_cast<Real>(holders));  // a loss of the mean is p losses of the sum
  }

  void pass(int next, chunk_range sent, int previous, chunk_range target) {
    exchange(next, bytes_of(sent_, sent), previous, bytes_of(sent_, target));
  }

  void flush() {
    for_each_block({0, count()}, [&](const scaled_block& block) {
      decode_block(sent_, block, write_mode::overwrite);
    });
  }

 private:
  struct scaled_block {
    std::size_t first, last;     // numbers of the message
    std::size_t scale, numbers;  // byte offsets in an encoded message
  };
  struct chunk_begin {
    std::size_t block, byte;
  };

  static constexpr std::size_t alignment = encoded_layout<P>::alignment;
  static constexpr std::size_t scale_bytes = encoded_layout<P>::scale_bytes;
  static constexpr std::size_t padded(std::size_t n) {
    return (n + alignment - 1) / alignment * alignment;
  }

  // Lays out one more chunk, numbers first .. last-1, in blocks that end where a segment begins.
  void append_chunk(const bucket* layout, std::size_t first, std::size_t last) {
    const std::size_t begin = blocks_.size();
    std::size_t from = first;
    const auto append_block = [&](std::size_t to) {
      if (to <= from || to > last) return;
      blocks_.push_back({from, to, 0, 0});
      from = to;
    };
    if (layout != nullptr)
      for (const segment& part : layout->segments) append_block(part.offset - layout->offset);
    append_block(last);
    const std::size_t scales = scale_bytes * (blocks_.size() - begin);
    for (std::size_t k = begin; k < blocks_.size(); ++k) {
      blocks_[k].scale = size_ + scale_bytes * (k - begin);
      blocks_[k].numbers = size_ + scales + sizeof(storage) * (blocks_[k].first - first);
    }
    size_ += padded(scales + sizeof(storage) * (last - first));
  }

  template <class F>
  void for_each_block(chunk_range range, const F& f) const {
    for (std::size_t k = begin_of(range.first).block; k < begin_of(range.last).block; ++k)
      f(blocks_[k]);
  }
  [[nodiscard]] const chunk_begin& begin_of(int chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)];
  }

  static storage* numbers(std::byte* message, const scaled_block& block) {
    return reinterpret_cast<storage*>(message + block.numbers);
  }
  static scaling* scale(std::byte* message, const scaled_block& block) {
    return reinterpret_cast<scaling*>(message + block.scale);
  }

  void encode_range(chunk_range range, Real weight) {
    // for a GPU by argument-dependent lookup: ops/gpu/encode.hpp
    using cordee::detail::comm::encode;
    for_each_block(range, [&](const scaled_block& block) {
      encode<P>(block.last - block.first, values_.data + block.first, weight, numbers(sent_, block),
                scale(sent_, block), lost_.data + block.first, stream_);
    });
  }
  void decode_block(std::byte* message, const scaled_block& block, write_mode mode) const {
    // for a GPU by argument-dependent lookup: ops/gpu/encode.hpp
    using cordee::detail::comm::decode;
    decode<P>(block.last - block.first, numbers(message, block), scale(message, block),
              values_.data + block.first, mode, stream_);
  }

  [[nodiscard]] span_on<std::byte, D> bytes_of(std::byte* message, chunk_range c) const {
    return {message + begin_of(c.first).byte, begin_of(c.last).byte - begin_of(c.first).byte};
  }
  void exchange(int next, span_on<std::byte, D> outgoing, int previous,
                span_on<std::byte, D> incoming) const {
    hop<D>(next, bytes(outgoing), previous, incoming,
           [&](auto out, auto in) { comm_.exchange(out, in, stream_); });
  }

  const Communicator& comm_;
  span_on<Real, D> values_, lost_;
  typename D::stream stream_;
  std::vector<scaled_block> blocks_;
  std::vector<chunk_begin> chunks_;  // (chunks + 1)
  std::size_t size_ = 0;             // bytes of an encoded message
  std::byte *sent_ = nullptr, *received_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
