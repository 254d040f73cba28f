// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integers of more than 24 bits in ONNX, as digits of a few bits, by operators that compute alike
// in every runtime seen: onnxruntime 1.32 in the integers that a file names, OpenVINO 2026.4 in 32
// bits where it names 64, and partly in floats where it names 32.
//
//   Add, Sub, Mul, Max, Min, Less, Cast   exact in 32 bits
//   BitShift, Div, MatMul, ReduceSum,     exact below 2^24 alone, which is thus the bound of what
//   ConvInteger, a Pad's constant         they read and of their sums
//   Clip, Mod                             not used
//
// A number is sum of d_i 2^(bits i), with digits of uint32. Numbers here are not negative.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/onnx/graph.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// What a float holds: products and sums up to it are exact.
inline constexpr std::int64_t onnx_exact = std::int64_t{1} << 24;
/// Bits of a digit whose products, three of them with a carry, are exact.
inline constexpr int onnx_digit_bits = 11;

__extension__ using onnx_wide = unsigned __int128;

/// Names of tensors of uint32, the least digit first; "" is zero. The last one may be larger than
/// the others.
struct onnx_digits {
  int bits = onnx_digit_bits;
  std::vector<std::string> digits{};
  std::int64_t last = 0;  // bound of the last one
};

/// Adds nodes on digits to a graph. Constants have `shape`, with one number for each channel.
class onnx_arithmetic {
 public:
  onnx_arithmetic(onnx_graph& graph, std::string name, std::span<const std::size_t> shape)
      : graph_(graph), name_(std::move(name)), shape_(shape.begin(), shape.end()) {}

  template <class T, class Number>
  std::string constant(const char* of, const std::vector<Number>& channels) {
    std::vector<T> all;
    for (const Number& c : channels) all.push_back(static_cast<T>(c));
    return graph_.constant<T>(fresh(of), shape_, all);
  }
  template <class T>
  std::string cast(const char* of, const std::string& x) {
    return graph_.cast<T>(fresh(of), x);
  }
  std::string node(const char* op, const char* of, const std::string& x, const std::string& y) {
    return graph_.add(op, fresh(of), {x, y});
  }
  /// x of int32, from a sum of products. OpenVINO computes what reads such a sum alone with it, in
  /// floats, and rounds a shift to the nearest; of a sum that two nodes read it does not.
  std::string apart(const std::string& x) {
    const std::string zero = scalar(".zero", std::int32_t{0});
    return add(node("Max", ".positive_part", x, zero), node("Min", ".negative_part", x, zero));
  }
  std::string add(const std::string& x, const std::string& y) {
    return x.empty() ? y : y.empty() ? x : node("Add", ".sum", x, y);
  }
  /// x, or zero if it is "", plus a constant of each channel.
  template <class T, class Number>
  std::string plus(const std::string& x, const std::vector<Number>& channels) {
    if (std::ranges::all_of(channels, [](Number c) { return c == 0; })) return x;
    return add(x, constant<T>(".addend", channels));
  }
  /// x times a constant of each channel; "" where all are zero.
  std::string times(const std::string& x, const std::vector<std::uint32_t>& channels) {
    if (std::ranges::all_of(channels, [](auto c) { return c == 0; })) return {};
    return node("Mul", ".product", x, constant<std::uint32_t>(".factor", channels));
  }
  /// x of uint32, below 2^24, shifted right by a number of bits for each channel.
  std::string shifted(const std::string& x, const std::vector<std::uint32_t>& bits) {
    if (std::ranges::all_of(bits, [](auto b) { return b == 0; })) return x;
    return shifted_by(x, constant<std::uint32_t>(".shift", bits));
  }
  std::string shifted(const std::string& x, int bits) {
    return shifted_by(x, scalar(".shift", static_cast<std::uint32_t>(bits)));
  }
  /// The same of an x of int32.
  std::string shifted_signed(const std::string& x, int bits) {
    return cast<std::int32_t>(".signed", shifted(cast<std::uint32_t>(".unsigned", x), bits));
  }
  /// x 2^bits
  template <class T>
  std::string raised(const std::string& x, int bits) {
    return bits == 0 ? x : node("Mul", ".raised", x, scalar(".unit", T{1} << bits));
  }

  /// floor(x / d) for x of int32 from 0 to `bound`, which is below 2^31 - 64. The operator's
  /// quotient is within 1 of it also where a runtime divides floats; the rest corrects it.
  std::string quotient(const std::string& x, std::int64_t bound, std::int32_t d) {
    const std::string by = scalar(".divisor", d);
    std::string near = node("Div", ".near", x, by);
    if (bound < onnx_exact && (d & (d - 1)) == 0) return near;
    expects(bound < onnx_exact || d >= 64, "write_onnx: a quotient that floats do not hold");
    const std::string rest = node("Sub", ".rest", x, node("Mul", ".multiple", near, by));
    const std::string above = node("Less", ".above", scalar(".most", d - 1), rest);
    const std::string below = node("Less", ".below", rest, scalar(".zero", std::int32_t{0}));
    return node("Sub", ".quotient",
                node("Add", ".near_or_next", near, cast<std::int32_t>(".one_more", above)),
                cast<std::int32_t>(".one_less", below));
  }

  /// The digits of x of int32 from 0 to `bound`, which is below 2^31 - 64.
  onnx_digits split(const std::string& x, std::int64_t bound, int bits) {
    onnx_digits y{bits, {}, bound};
    std::string rest = x;
    for (; y.last >> bits != 0; y.last >>= bits) {
      const std::string next =
          y.last < onnx_exact ? shifted_signed(rest, bits) : quotient(rest, y.last, 1 << bits);
      y.digits.push_back(cast<std::uint32_t>(
          ".digit", node("Sub", ".low", rest, raised<std::int32_t>(next, bits))));
      rest = next;
    }
    y.digits.push_back(cast<std::uint32_t>(".digit", rest));
    return y;
  }

  /// x times a constant of each channel, as columns: of each digit a tensor of uint32, or "".
  std::vector<std::string> product(const onnx_digits& x, std::vector<onnx_wide> factors) {
    std::vector<std::string> columns;
    for (std::size_t j = 0; std::ranges::any_of(factors, [](onnx_wide r) { return r != 0; }); ++j) {
      const std::vector<std::uint32_t> digit = take_digit(factors, x.bits);
      columns.resize(std::max(columns.size(), x.digits.size() + j));
      for (std::size_t i = 0; i < x.digits.size(); ++i)
        columns[i + j] = add(columns[i + j], times(x.digits[i], digit));
    }
    return columns;
  }
  /// floor((sum of the columns + an addend of each channel) / 2^(bits first)). The columns below
  /// `first`, with their carries, are below 2^24, and the result below 2^31.
  std::string carried(const std::vector<std::string>& columns, int bits,
                      std::vector<onnx_wide> addends, std::size_t first) {
    std::string carry;
    for (std::size_t k = 0; k < first; ++k) {
      const std::vector<std::uint32_t> digit = take_digit(addends, bits);
      const std::string of = k < columns.size() ? columns[k] : std::string{};
      const std::string sum = plus<std::uint32_t>(add(of, carry), digit);
      if (!sum.empty()) carry = shifted(sum, bits);
    }
    // A column from 2^31 on is zero, since the result is below it.
    for (std::size_t k = first; k < columns.size() && static_cast<int>(k - first) * bits < 31; ++k)
      if (!columns[k].empty())
        carry = add(carry, raised<std::uint32_t>(columns[k], bits * static_cast<int>(k - first)));
    return plus<std::uint32_t>(carry, addends);
  }

  std::string plain_times(const std::string& x, std::int32_t factor) {
    return node("Mul", ".multiple", x, scalar(".factor", factor));
  }
  /// The digits from `first` on of the columns' sum + an addend of each channel, which is not
  /// negative, and from there on at most `most`. Columns are of int32, their magnitudes below 2^22.
  onnx_digits positive_digits(const std::vector<std::string>& columns, int bits,
                              std::vector<onnx_wide> addends, std::size_t first,
                              std::int64_t most) {
    constexpr int lent = 23;  // 2^23 is taken from the next columns
    onnx_digits y{bits, {}, most};
    std::string carry;
    const auto left = [&] { return std::ranges::any_of(addends, [](auto a) { return a != 0; }); };
    for (std::size_t k = 0;; ++k) {
      const std::vector<std::uint32_t> digit = take_digit(addends, bits);
      const std::string of = k < columns.size() ? apart(columns[k]) : std::string{};
      const std::string sum = plus<std::int32_t>(add(of, carry), digit);
      if (k >= first && k + 1 >= columns.size() && !left() && y.last >> bits == 0) {
        y.digits.push_back(cast<std::uint32_t>(".digit", sum));
        return y;
      }
      const std::string raised_sum = node("Add", ".positive", sum, scalar(".lent", 1 << lent));
      const std::string next = shifted_signed(raised_sum, bits);
      if (k >= first) {
        y.digits.push_back(cast<std::uint32_t>(
            ".digit", node("Sub", ".low", raised_sum, raised<std::int32_t>(next, bits))));
        y.last >>= bits;
      }
      carry = node("Sub", ".carry", next, scalar(".returned", 1 << (lent - bits)));
    }
  }

  /// The lowest digit of each, which is taken away.
  static std::vector<std::uint32_t> take_digit(std::vector<onnx_wide>& all, int bits) {
    std::vector<std::uint32_t> digit;
    for (onnx_wide& x : all) {
      digit.push_back(static_cast<std::uint32_t>(x & ((onnx_wide{1} << bits) - 1)));
      x >>= bits;
    }
    return digit;
  }

 private:
  std::string shifted_by(const std::string& x, const std::string& bits) {
    return graph_.add("BitShift", fresh(".shifted"), {x, bits},
                      onnx_attributes{}.text("direction", "RIGHT"));
  }
  template <class T>
  std::string scalar(const char* of, T x) {
    return graph_.scalar(fresh(of), x);
  }
  std::string fresh(const char* of) { return concat(name_, of, count_++); }

  onnx_graph& graph_;
  std::string name_;
  std::vector<std::size_t> shape_;
  int count_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
