// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integers times a real, rounded, by ONNX's operators of integers: the single rounding of
// ops/requantize.hpp and the batch norm of infer/program/integer_layers.hpp.
//
//   y = floor((m x + a) 2^-s) + b
//
// For a single rounding, a includes the half, 2^(s-1), that rounds to the nearest; for a batch
// norm, the B of its fit does so.
//
// The product has up to 62 bits, more than some runtimes compute with (infer/onnx/digits.hpp). So x
// is counted from its bound, X = x - low, or high - x where m is negative, which leaves numbers
// that are not negative, and X and |m| are multiplied digit by digit:
//
//   y = ((|m| X + r) >> s) + y(X = 0),    0 <= r < 2^s
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/onnx/digits.hpp>
#include <cordee/infer/onnx/graph.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

__extension__ using onnx_signed = __int128;

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

  [[nodiscard]] onnx_signed dividend(std::int64_t x) const {
    return onnx_signed{multiplier} * x + addend;
  }
  /// y of an x.
  [[nodiscard]] onnx_signed result(std::int64_t x) const { return (dividend(x) >> shift) + offset; }
  /// Where X is 0.
  [[nodiscard]] std::int64_t start() const { return multiplier < 0 ? high : low; }
  [[nodiscard]] onnx_wide magnitude() const {
    return static_cast<onnx_wide>(multiplier < 0 ? -onnx_signed{multiplier} : multiplier);
  }
  /// r
  [[nodiscard]] onnx_wide rest() const {
    const onnx_signed at_start = dividend(start());
    return static_cast<onnx_wide>(at_start - ((at_start >> shift) << shift));
  }
  [[nodiscard]] std::int64_t least() const {
    return static_cast<std::int64_t>(std::min(result(low), result(high)));
  }
  [[nodiscard]] std::int64_t most() const {
    return static_cast<std::int64_t>(std::max(result(low), result(high)));
  }
};

/// What the results of a rescaling are clipped to later.
struct onnx_limits {
  std::int64_t least, most;
};

/// Above the magnitudes of results; sums of two fit 32 bits.
inline constexpr std::int64_t onnx_largest = std::int64_t{1} << 30;

/// The channel for the x whose results are within the limits, or next to them.
inline onnx_rescaling narrowed(onnx_rescaling c, const onnx_limits& limits) {
  const auto first_where = [&](const auto& holds) {  // the first x from low on; high if none is
    std::int64_t from = c.low, to = c.high;
    while (from < to) {
      const std::int64_t middle = from + (to - from) / 2;
      if (holds(middle))
        to = middle;
      else
        from = middle + 1;
    }
    return from;
  };
  std::int64_t low = 0, high = 0;
  if (c.multiplier < 0) {
    low = first_where([&](std::int64_t x) { return c.result(x) < limits.most; }) - 1;
    high = first_where([&](std::int64_t x) { return c.result(x) <= limits.least; });
  } else {
    low = first_where([&](std::int64_t x) { return c.result(x) > limits.least; }) - 1;
    high = first_where([&](std::int64_t x) { return c.result(x) >= limits.most; });
  }
  c.low = std::clamp(low, c.low, c.high);
  c.high = std::max(c.low, high);
  if (c.high - c.low > 2) return c;
  // A steep line over so few x may pass the limits by far: one as steep as the results suffices.
  const auto within = [&](std::int64_t x) {
    return static_cast<std::int64_t>(
        std::clamp<onnx_signed>(c.result(x), limits.least, limits.most));
  };
  const std::int64_t middle = c.high - c.low == 2 ? c.low + 1 : c.low,
                     slope = c.high - c.low == 0   ? 0
                             : c.high - c.low == 1 ? within(c.high) - within(c.low)
                             : c.multiplier < 0    ? limits.least - limits.most
                                                   : limits.most - limits.least;
  return {c.low, c.high, slope, within(middle) - slope * middle, 0};
}

/// Adds y of digits of X, which is at most high - low, of int32.
inline std::string add_digits_rescaling(onnx_arithmetic& to, const onnx_digits& x,
                                        std::span<const onnx_rescaling> channels) {
  const auto bits_of = [&](std::size_t columns) { return x.bits * static_cast<int>(columns); };
  // So many columns are carried and left; what remains of a shift needs a result below 2^24.
  std::size_t first = 0;
  std::vector<onnx_wide> factors, rests;
  std::vector<std::uint32_t> shifts;
  for (bool exact = false; !exact; ++first) {
    factors.clear(), rests.clear(), shifts.clear();
    onnx_wide most = 0;
    bool divides = true;
    for (const onnx_rescaling& c : channels) {
      const int raised = std::max(0, bits_of(first) - c.shift);
      shifts.push_back(static_cast<std::uint32_t>(std::max(0, c.shift - bits_of(first))));
      factors.push_back(c.high > c.low ? c.magnitude() << raised : 0);
      rests.push_back(c.rest() << raised);
      divides = divides && shifts.back() == 0;
      const auto range = static_cast<onnx_wide>(c.high - c.low);
      most = std::max(most, (factors.back() * range + rests.back()) >> bits_of(first));
    }
    exact = divides || most < static_cast<onnx_wide>(onnx_exact);
    if (exact) break;
  }
  std::vector<std::string> columns = to.product(x, factors);
  if (columns.empty())  // the shape of x, where nothing depends on it
    columns = {to.node("Mul", ".nothing", x.digits[0],
                       to.constant<std::uint32_t>(".zero", std::vector(channels.size(), 0)))};
  const std::string top = to.shifted(to.carried(columns, x.bits, rests, first), shifts);
  std::vector<std::int64_t> starts;
  for (const onnx_rescaling& c : channels)
    starts.push_back(static_cast<std::int64_t>(c.result(c.start())));
  return to.plus<std::int32_t>(to.cast<std::int32_t>(".scaled", top), starts);
}

/// Adds the rescaling of an x of int32 to a graph, and returns the name of y, of int32. `shape` is
/// that of the constants, which x is broadcast with. A y beyond the limits may be another one
/// beyond them. Throws error that names the layer if 32 bits do not hold what y may be.
inline std::string add_rescaling(onnx_graph& graph, const std::string& layer,
                                 const std::string& name, const std::string& x,
                                 std::span<const onnx_rescaling> channels,
                                 std::span<const std::size_t> shape,
                                 const std::optional<onnx_limits>& limits = {}) {
  onnx_arithmetic to(graph, name, shape);
  std::vector<onnx_rescaling> all(channels.begin(), channels.end());
  const auto is_large = [](const onnx_rescaling& c) {
    const auto beyond = [](onnx_signed y) { return y <= -onnx_largest || y >= onnx_largest; };
    return beyond(c.result(c.low)) || beyond(c.result(c.high)) ||
           c.high - c.low >= (std::int64_t{1} << 31) - 64;
  };
  std::string from = x;
  if (limits && std::ranges::any_of(all, is_large)) {
    std::vector<std::int64_t> low, high;
    for (onnx_rescaling& c : all) {
      c = narrowed(c, *limits);
      low.push_back(c.low);
      high.push_back(c.high);
    }
    from = to.node("Max", ".raised", from, to.constant<std::int32_t>(".least", low));
    from = to.node("Min", ".limited", from, to.constant<std::int32_t>(".most", high));
  }
  if (std::ranges::any_of(all, is_large))
    throw error(concat("write_onnx: layer \"", layer,
                       "\": its sums or results do not fit 32 bits, which some runtimes compute "
                       "in where a file has 64"));
  std::vector<std::int64_t> signs, starts;
  std::int64_t range = 0;
  for (const onnx_rescaling& c : all) {
    signs.push_back(c.multiplier < 0 ? -1 : 1);
    starts.push_back(c.multiplier < 0 ? c.high : -c.low);
    range = std::max(range, c.high - c.low);
  }
  if (std::ranges::any_of(signs, [](auto s) { return s < 0; }))
    from = to.node("Mul", ".directed", from, to.constant<std::int32_t>(".sign", signs));
  from = to.plus<std::int32_t>(from, starts);
  return add_digits_rescaling(to, to.split(from, range, onnx_digit_bits), all);
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
