// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an ONNX graph of integers by the definitions of its operators (opset 17), and refuses what
// they leave open: another type than those it knows, thus any float, operands of two types, numbers
// that a type does not hold, division of a negative number.
//
// It also computes as runtimes do that have 32 bits, and those of floats where they shift, divide
// and sum: refuses tensors of 64 bits but for axes and sizes, and sums above 2^24, and with
// `in_floats` shifts and divides in floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/infer/integer_tensor.hpp"
#include "tests/infer/protobuf_reader.hpp"

namespace onnx_reader {

class interpreter {
 public:
  explicit interpreter(const model& m, bool in_floats = false) : model_(m), floats_(in_floats) {
    for (const auto& [name, t] : m.constants) {
      integer_tensor x(t.type, t.shape);
      const auto read = [&]<class T>(T) {
        const auto in = numbers<T>(t.raw);
        x.all.assign(in.begin(), in.end());
      };
      switch (t.type) {
        case 2:
          read(std::uint8_t{});
          break;
        case 3:
          read(std::int8_t{});
          break;
        case 5:
          read(std::int16_t{});
          break;
        case 6:
          read(std::int32_t{});
          break;
        case 12:
          read(std::uint32_t{});
          break;
        case 7:
        case 13:
          read(std::int64_t{});
          break;
        default:
          throw std::runtime_error("constant " + name + " is not of integers");
      }
      values_[name] = x;
    }
  }

  /// The output of a graph with one input, for that of the input's type and shape.
  integer_tensor run(const integer_tensor& x) {
    const input &in = model_.inputs.at(0), &out = model_.outputs.at(0);
    if (in.type != x.type) throw std::runtime_error("the input is of another type");
    values_[in.name] = x;
    for (const node& n : model_.nodes) {
      integer_tensor y = result(n);
      if (y.type == 7 || y.type == 13) throw std::runtime_error(n.name + " has 64 bits");
      for (const std::int64_t number : y.all)
        if (!integer_tensor::holds(y.type, number)) throw std::runtime_error(n.name + " overflows");
      values_[n.outputs.at(0)] = y;
    }
    if (values_.at(out.name).type != out.type)
      throw std::runtime_error("the output is of another type");
    return values_.at(out.name);
  }

 private:
  const integer_tensor& in(const node& n, std::size_t k) const {
    return values_.at(n.inputs.at(k));
  }

  integer_tensor result(const node& n) const {
    const integer_tensor& x = in(n, 0);
    if (n.op == "Cast") {
      integer_tensor y = x;
      y.type = n.integers.at("to").at(0);
      return y;
    }
    if (n.op == "Add" || n.op == "Sub" || n.op == "Mul" || n.op == "Div" || n.op == "Max" ||
        n.op == "Min" || n.op == "Less" || n.op == "BitShift")
      return combined(n, x, in(n, 1));
    if (n.op == "Clip") {
      if (in(n, 1).type != x.type || in(n, 2).type != x.type) throw mixed(n);
      integer_tensor y = x;
      for (std::int64_t& v : y.all) v = std::clamp(v, in(n, 1).all.at(0), in(n, 2).all.at(0));
      return y;
    }
    if (n.op == "Gather") {
      const integer_tensor& at = in(n, 1);
      integer_tensor y(x.type, at.shape);
      for (std::size_t i = 0; i < y.all.size(); ++i)
        y.all[i] = x.all.at(static_cast<std::size_t>(at.all[i]));
      return y;
    }
    if (n.op == "Flatten") {
      integer_tensor y(x.type, {x.side(0), static_cast<std::int64_t>(x.all.size()) / x.side(0)});
      y.all = x.all;
      return y;
    }
    if (n.op == "MatMul") return product(n, x, in(n, 1));
    if (n.op == "ConvInteger") return convolution(n, x, in(n, 1));
    if (n.op == "MaxPool") return max_pool(n, x);
    if (n.op == "ReduceSum") {
      if (in(n, 1).all != std::vector<std::int64_t>{2, 3}) throw unknown(n);
      integer_tensor y(x.type, {x.side(0), x.side(1), 1, 1});
      const std::size_t pixels = x.all.size() / y.all.size();
      for (std::size_t i = 0; i < x.all.size(); ++i) exact(n, y.all[i / pixels] += x.all[i]);
      return y;
    }
    if (n.op == "Slice") return slice(n, x);
    if (n.op == "Pad") return padded(n, x);
    throw unknown(n);
  }

  static std::runtime_error unknown(const node& n) {
    return std::runtime_error("no such operator of integers: " + n.op + " of " + n.name);
  }
  static std::runtime_error mixed(const node& n) {
    return std::runtime_error(n.name + " has operands of two types");
  }

  /// Broadcasts both: shapes are aligned at their last sides.
  integer_tensor combined(const node& n, const integer_tensor& a, const integer_tensor& b) const {
    if (a.type != b.type) throw mixed(n);
    const std::size_t rank = std::max(a.shape.size(), b.shape.size());
    const auto side = [rank](const integer_tensor& x, std::size_t axis) {
      const std::size_t absent = rank - x.shape.size();
      return axis < absent ? std::int64_t{1} : x.shape[axis - absent];
    };
    std::vector<std::int64_t> shape;
    for (std::size_t k = 0; k < rank; ++k) shape.push_back(std::max(side(a, k), side(b, k)));
    /// x's number of each of y's.
    const auto indices = [&](const integer_tensor& x) {
      std::vector<std::size_t> at{0};
      std::size_t size = x.all.size();
      for (std::size_t k = 0; k < rank; ++k) {
        if (side(x, k) != 1 && side(x, k) != shape[k]) throw std::runtime_error("shapes differ");
        size /= static_cast<std::size_t>(side(x, k));
        std::vector<std::size_t> longer;
        for (const std::size_t first : at)
          for (std::int64_t i = 0; i < shape[k]; ++i)
            longer.push_back(first + (side(x, k) == 1 ? 0 : static_cast<std::size_t>(i) * size));
        at = std::move(longer);
      }
      return at;
    };
    integer_tensor y(n.op == "Less" ? 9 : a.type, shape);
    const std::vector<std::size_t> of_a = indices(a), of_b = indices(b);
    const auto fill = [&](const auto& f) {
      for (std::size_t i = 0; i < y.all.size(); ++i) {
        const std::int64_t u = a.all[of_a[i]], v = b.all[of_b[i]];
        if (!f(u, v, y.all[i]))
          throw std::runtime_error(n.name + " is not defined for " + std::to_string(u) + " and " +
                                   std::to_string(v));
      }
    };
    using number = std::int64_t;
    if (n.op == "Add")
      fill([](number u, number v, number& to) { return !__builtin_add_overflow(u, v, &to); });
    else if (n.op == "Mul")
      fill([](number u, number v, number& to) { return !__builtin_mul_overflow(u, v, &to); });
    else if (n.op == "Sub")
      fill([](number u, number v, number& to) { return !__builtin_sub_overflow(u, v, &to); });
    else if (n.op == "Less")
      fill([](number u, number v, number& to) { return to = u < v, true; });
    else if (n.op == "Min")
      fill([](number u, number v, number& to) { return to = std::min(u, v), true; });
    else if (n.op == "Max")
      fill([](number u, number v, number& to) { return to = std::max(u, v), true; });
    else if (n.op == "Div")  // ONNX does not say how a negative quotient is rounded
      fill([this](number u, number v, number& to) {
        return u >= 0 && v > 0 && (to = floats_ ? in_floats(u, v) : u / v, true);
      });
    else if (a.type == 12 && n.texts.at("direction") == "RIGHT")  // BitShift
      fill([this](number u, number v, number& to) {
        return v < 32 && (to = floats_ ? in_floats(u, number{1} << v) : u >> v, true);
      });
    else
      throw unknown(n);
    return y;
  }
  static std::int64_t in_floats(std::int64_t u, std::int64_t v) {
    return static_cast<std::int64_t>(static_cast<float>(u) / static_cast<float>(v));
  }
  static void exact(const node& n, std::int64_t sum) {
    if (sum < -(1 << 24) || sum > 1 << 24) throw std::runtime_error(n.name + ": above 2^24");
  }
  static integer_tensor product(const node& n, const integer_tensor& a, const integer_tensor& b) {
    if (a.type != b.type || a.shape.size() != 2) throw mixed(n);
    integer_tensor y(a.type, {a.side(0), b.side(1)});
    for (std::int64_t i = 0; i < a.side(0); ++i)
      for (std::int64_t j = 0; j < b.side(1); ++j)
        for (std::int64_t k = 0; k < a.side(1); ++k)
          exact(n, y.all[static_cast<std::size_t>(i * b.side(1) + j)] +=
                   a.all.at(static_cast<std::size_t>(i * a.side(1) + k)) *
                   b.all.at(static_cast<std::size_t>(k * b.side(1) + j)));
    return y;
  }
  /// f(y's number, its sample and channel, x's row and column, the tap's) for all taps inside x.
  template <class F>
  static integer_tensor windows(const node& n, const integer_tensor& x, std::int64_t type,
                                std::int64_t channels, const F& f) {
    for (const char* const name : {"strides", "kernel_shape", "pads"})
      for (const std::int64_t v : n.integers.at(name))
        if (v != n.integers.at(name).at(0)) throw unknown(n);
    const std::int64_t stride = n.integers.at("strides").at(0), pad = n.integers.at("pads").at(0),
                       window = n.integers.at("kernel_shape").at(0);
    const auto side = [&](std::size_t k) { return (x.side(k) + 2 * pad - window) / stride + 1; };
    integer_tensor y(type, {x.side(0), channels, side(2), side(3)});
    for (std::int64_t b = 0; b < y.side(0); ++b)
      for (std::int64_t k = 0; k < y.side(1); ++k)
        for (std::int64_t i = 0; i < y.side(2); ++i)
          for (std::int64_t j = 0; j < y.side(3); ++j)
            for (std::int64_t r = 0; r < window; ++r)
              for (std::int64_t s = 0; s < window; ++s) {
                const std::int64_t h = i * stride + r - pad, w = j * stride + s - pad;
                if (h >= 0 && w >= 0 && h < x.side(2) && w < x.side(3))
                  f(y.at(b, k, i, j), b, k, h, w, r, s);
              }
    return y;
  }
  integer_tensor convolution(const node& n, const integer_tensor& x,
                             const integer_tensor& w) const {
    if (x.type != 2 || w.type != 2 || in(n, 2).type != 2 || in(n, 3).type != 2) throw mixed(n);
    const std::int64_t zero = in(n, 2).all.at(0), weight_zero = in(n, 3).all.at(0);
    return windows(
        n, x, 6, w.side(0), [&](auto& sum, auto b, auto k, auto h, auto l, auto r, auto s) {
          for (std::int64_t c = 0; c < x.side(1); ++c)
            exact(n, sum += (x.at(b, c, h, l) - zero) * (w.at(k, c, r, s) - weight_zero));
        });
  }
  static integer_tensor max_pool(const node& n, const integer_tensor& x) {
    if (x.type != 2) throw unknown(n);  // of integers, ONNX's MaxPool has those of 8 bits
    return windows(n, x, 2, x.side(1), [&](auto& most, auto b, auto k, auto h, auto l, auto, auto) {
      most = std::max(most, x.at(b, k, h, l));
    });
  }
  integer_tensor slice(const node& n, const integer_tensor& x) const {
    std::vector<std::int64_t> first(4), step(4, 1), shape = x.shape;
    for (std::size_t k = 0; k < in(n, 3).all.size(); ++k) {
      const auto axis = static_cast<std::size_t>(in(n, 3).all[k]);
      first.at(axis) = in(n, 1).all.at(k);
      step[axis] = in(n, 4).all.at(k);
      const std::int64_t end = std::min(in(n, 2).all.at(k), x.side(axis));
      shape[axis] = (end - first[axis] + step[axis] - 1) / step[axis];
    }
    return moved(x, integer_tensor(x.type, shape), first, step);
  }
  integer_tensor padded(const node& n, const integer_tensor& x) const {
    std::vector<std::int64_t> first, shape;
    for (std::size_t k = 0; k < 4; ++k) {
      first.push_back(-in(n, 1).all.at(k));
      shape.push_back(in(n, 1).all[k] + x.side(k) + in(n, 1).all.at(k + 4));
    }
    integer_tensor y(x.type, shape);
    if (n.inputs.size() > 2) {
      if (in(n, 2).type != x.type) throw mixed(n);
      std::ranges::fill(y.all, in(n, 2).all.at(0));
    }
    return moved(x, y, first, {1, 1, 1, 1});
  }
  /// y's number at (i, ...) is x's at (first + i step, ...), where x has one.
  static integer_tensor moved(const integer_tensor& x, integer_tensor y,
                              const std::vector<std::int64_t>& first,
                              const std::vector<std::int64_t>& step) {
    std::int64_t i[4];
    for (i[0] = 0; i[0] < y.side(0); ++i[0])
      for (i[1] = 0; i[1] < y.side(1); ++i[1])
        for (i[2] = 0; i[2] < y.side(2); ++i[2])
          for (i[3] = 0; i[3] < y.side(3); ++i[3]) {
            std::int64_t from[4];
            bool inside = true;
            for (std::size_t k = 0; k < 4; ++k) {
              from[k] = first[k] + i[k] * step[k];
              inside = inside && from[k] >= 0 && from[k] < x.side(k);
            }
            if (inside) y.at(i[0], i[1], i[2], i[3]) = x.at(from[0], from[1], from[2], from[3]);
          }
    return y;
  }

  const model& model_;
  bool floats_;
  std::map<std::string, integer_tensor> values_;
};

}  // namespace onnx_reader
