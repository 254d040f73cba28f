// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integers times a real, rounded, by ONNX's operators of integers: the single rounding of
// ops/requantize.hpp and the batch norm of infer/integer_layers.hpp.
//
//   y = floor((m x + a) 2^-s) + b
//
// Of a single rounding, a has the half, 2^(s-1), that rounds to the nearest; of a batch norm, the B
// of its fit does so.
//
// BitShift is of unsigned integers alone, and Div rounds towards zero, so a multiple o 2^s is added
// that makes every dividend positive or zero:
//
//   y = ((m x + a + o 2^s) >> s) + b - o
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/onnx_graph.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// A channel whose x is from low to high.
struct onnx_rescaling {
  std::int64_t low, high;
  std::int64_t multiplier, addend;  // m, a
  int shift;                        // s, 0 to 62
  std::int64_t offset = 0;          // b

  /// floor(x f + added 2^(shift - 31) + 1/2) + offset, as ops::rescaled has it.
  static onnx_rescaling of(const ops::fixed_point& f, std::int64_t low, std::int64_t high,
                           std::int64_t added = 0, std::int64_t offset = 0) {
    const int total = 31 - f.shift;
    const std::int64_t half = total == 0 ? 0 : std::int64_t{1} << (total - 1);
    return {low, high, f.multiplier, added + half, total, offset};
  }

  /// The least o for which m x + a + o 2^s is 0 or more; empty where one of them overflows 63 bits.
  [[nodiscard]] std::optional<std::int64_t> unsigned_bias() const {
    std::int64_t first = 0, last = 0, raised = 0, most = 0;
    if (__builtin_mul_overflow(multiplier, multiplier < 0 ? high : low, &first) ||
        __builtin_add_overflow(first, addend, &first) ||
        __builtin_mul_overflow(multiplier, multiplier < 0 ? low : high, &last) ||
        __builtin_add_overflow(last, addend, &last))
      return std::nullopt;
    const std::int64_t o = first < 0 ? -(first >> shift) : 0;
    if (__builtin_mul_overflow(o, std::int64_t{1} << shift, &raised) ||
        __builtin_add_overflow(raised, addend, &most) ||
        __builtin_add_overflow(raised, last, &most))
      return std::nullopt;
    return o;
  }
};

/// Adds the rescaling of an x of int64 to a graph, and returns the name of y, of int64. `shape` is
/// that of the constants, which x is broadcast with. Throws error that names the layer if 64 bits
/// do not hold what x may be.
inline std::string add_rescaling(onnx_graph& graph, const std::string& layer,
                                 const std::string& name, const std::string& x,
                                 std::span<const onnx_rescaling> channels,
                                 std::span<const std::size_t> shape) {
  std::vector<std::int64_t> multipliers, addends, offsets;
  std::vector<std::uint64_t> shifts;
  for (const onnx_rescaling& c : channels) {
    const auto o = c.unsigned_bias();
    if (!o)
      throw error(concat("write_onnx: layer \"", layer,
                         "\": ONNX's integers of 64 bits do not hold its sums"));
    multipliers.push_back(c.multiplier);
    addends.push_back(c.addend + (*o << c.shift));
    shifts.push_back(static_cast<std::uint64_t>(c.shift));
    offsets.push_back(c.offset - *o);
  }
  const auto constant = [&]<class T>(const char* of, const std::vector<T>& all) {
    return graph.constant<T>(concat(name, of), shape, all);
  };
  const std::string product =
      graph.add("Mul", name + ".product", {x, constant(".multiplier", multipliers)});
  const std::string dividend =
      graph.add("Add", name + ".dividend", {product, constant(".addend", addends)});
  const std::string shifted = graph.add(
      "BitShift", name + ".shifted",
      {graph.cast<std::uint64_t>(name + ".unsigned", dividend), constant(".shift", shifts)},
      onnx_attributes{}.text("direction", "RIGHT"));
  return graph.add(
      "Add", name + ".rescaled",
      {graph.cast<std::int64_t>(name + ".signed", shifted), constant(".offset", offsets)});
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
