// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integers of one of ONNX's types, with a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace onnx_reader {

struct integer_tensor {
  // 2: uint8, 3: int8, 5: int16, 6: int32, 7: int64, 9: bool, 12: uint32, 13: uint64 below 2^63
  std::int64_t type = 7;
  std::vector<std::int64_t> shape, all;

  integer_tensor() = default;
  integer_tensor(std::int64_t of, std::vector<std::int64_t> sides)
      : type(of), shape(std::move(sides)) {
    all.resize(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  }
  /// Whether the type holds x.
  static bool holds(std::int64_t type, std::int64_t x) {
    const auto within = [x]<class T>(T) {
      return x >= std::numeric_limits<T>::min() && x <= std::numeric_limits<T>::max();
    };
    switch (type) {
      case 2:
        return within(std::uint8_t{});
      case 3:
        return within(std::int8_t{});
      case 5:
        return within(std::int16_t{});
      case 6:
        return within(std::int32_t{});
      case 7:
        return true;
      case 9:
        return x == 0 || x == 1;
      case 12:
        return within(std::uint32_t{});
      case 13:
        return x >= 0;
      default:
        throw std::runtime_error("no type of integers: " + std::to_string(type));
    }
  }
  std::int64_t side(std::size_t axis) const { return shape.at(axis); }
  /// Of four axes.
  std::int64_t& at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return all.at(static_cast<std::size_t>(((n * side(1) + c) * side(2) + h) * side(3) + w));
  }
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return const_cast<integer_tensor*>(this)->at(n, c, h, w);
  }
};

}  // namespace onnx_reader
