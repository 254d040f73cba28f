// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The table of a model's parameters, and its division into buckets.
//
// A segment is one parameter tensor: a name, a kind, and its offset in every plane of the arena. A
// bucket is a contiguous run of segments of limited size, formed from the last segment to the first
// (the order in which gradients become ready), so a bucket is a subspan of a plane and nothing is
// copied before communication.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cordee/core/config.hpp>
#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI {

/// Kind of a parameter tensor. Values are the bits of `kinds`.
enum class kind : unsigned {
  weight = 1,     ///< Weights of a convolution or a linear layer.
  bias = 2,       ///< Bias of a linear layer.
  scale = 4,      ///< Scale of batch norm (PyTorch's weight).
  shift = 8,      ///< Shift of batch norm (PyTorch's bias).
  statistic = 16  ///< Running statistic, not trained: batch norm's, or a quantization range.
};

/// A set of kinds: which segments have weight decay, or a layer-wise rate.
struct kinds {
  unsigned bits = 0;  ///< Bitwise or of the kinds; 0: none.

  constexpr kinds() = default;
  /// The set of one kind; implicit.
  constexpr kinds(kind k) : bits(static_cast<unsigned>(k)) {}  // NOLINT

  /// Whether k is in the set.
  constexpr bool operator()(kind k) const { return (bits & static_cast<unsigned>(k)) != 0; }
  friend constexpr kinds operator|(kinds a, kinds b) {
    a.bits |= b.bits;
    return a;
  }
  friend constexpr bool operator==(kinds, kinds) = default;
};
/// The set of both: `kind::bias | kind::scale`.
constexpr kinds operator|(kind a, kind b) { return kinds{a} | kinds{b}; }

namespace detail::core {

/// In messages, by the bit of the kind.
inline constexpr std::array kind_names{"weight", "bias", "scale", "shift", "statistic"};

/// Every kind but running statistics.
inline constexpr kinds trainable = kind::weight | kind::bias | kind::scale | kind::shift;

}  // namespace detail::core

/// Dimensions of a tensor in files; unused ones are zero, after the others.
using tensor_shape = std::array<int, 6>;

/// One parameter tensor, in torchvision's order: (K, C, R, S) for convolutions.
struct segment {
  std::string_view name;  ///< Name in files, as torchvision's: layer1.0.conv1.weight.
  /// Decides weight decay and layer-wise rates in optimizers.
  cordee::kind kind = cordee::kind::weight;
  /// Offset in every plane (`offset`, a multiple of 64), and number of elements (`size`).
  std::size_t offset = 0, size = 0;
  tensor_shape shape{};  ///< Shape in files; all zero: `size` numbers.

  /// offset + size, without padding.
  [[nodiscard]] constexpr std::size_t end() const { return offset + size; }
};

/// A contiguous run of segments that is exchanged at once.
struct bucket {
  int index = 0;  ///< Order of readiness; 0 is at the end of the table.
  /// Offset in every plane (`offset`), and number of elements, including padding (`size`).
  std::size_t offset = 0, size = 0;
  std::span<const segment> segments;  ///< The segments, in the table's order.
  std::size_t first_segment = 0;      ///< Index of segments.front() in the table.
};

namespace detail::core {

/// Offsets are multiples of this many numbers: 256 bytes of FP32. The padding between segments is
/// zero initially and stays so: every optimizer maps zero weight and zero gradient to zero.
inline constexpr std::size_t segment_alignment = 64;

/// The least multiple of segment_alignment that is not less than `numbers`.
constexpr std::size_t align_up(std::size_t numbers) {
  return (numbers + segment_alignment - 1) / segment_alignment * segment_alignment;
}

/// The number of trainable segments, which precede the statistics in a table.
constexpr std::size_t count_trainable(std::span<const segment> table) {
  std::size_t n = 0;
  while (n < table.size() && table[n].kind != kind::statistic) ++n;
  return n;
}

/// The buckets of the trainable segments in the order in which they become ready: bucket 0 is the
/// last run of the table. A bucket holds at most `limit` numbers, unless it is a single segment
/// that is larger; no segment is split, and none that the table leaves out is inside a bucket.
[[nodiscard, gnu::cold]] inline pod_vector<bucket> make_buckets(std::span<const segment> table,
                                                                std::size_t limit) {
  const auto stop = [&](std::size_t end) {
    return table[end - 1].offset + align_up(table[end - 1].size);
  };
  const auto first = [&](std::size_t end) {
    std::size_t k = end - 1;
    while (k > 0 && stop(k) == table[k].offset && stop(end) - table[k - 1].offset <= limit) --k;
    return k;
  };
  std::size_t end = count_trainable(table), count = 0;
  for (std::size_t k = end; k > 0; k = first(k)) ++count;
  pod_vector<bucket> buckets;
  buckets.resize(count);
  int index = 0;
  for (bucket& b : buckets) {
    const std::size_t k = first(end), offset = table[k].offset;
    b = {index++, offset, stop(end) - offset, table.subspan(k, end - k), k};
    end = k;
  }
  return buckets;
}

/// A hash of names, kinds, offsets, sizes and shapes (FNV-1a), which ranks compare before the first
/// step.
constexpr std::uint64_t fingerprint(std::span<const segment> table) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * 1099511628211ull; };
  for (const segment& s : table) {
    for (const char c : s.name) mix(static_cast<unsigned char>(c));
    mix(static_cast<std::uint64_t>(s.kind));
    mix(s.offset);
    mix(s.size);
    for (std::size_t d = 0; d < s.shape.size(); ++d)  // beyond four, of those that have them
      if (d < 4 || s.shape[d] > 0) mix(static_cast<std::uint64_t>(s.shape[d]));
  }
  return hash;
}

}  // namespace detail::core

}  // namespace cordee::inline CORDEE_ABI
