// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes an integer_network as an ONNX file (opset 17) of integers alone, whose logits are equal to
// the bit.
//
//   input     uint8 (batch, channels, height, width), the bytes of images of the network's size
//   logits    int32 (batch, classes); the metadata's `logit_step` is what one step stands for
//
// Activations of bytes are uint8, those of 32 bits int64. Each definition of
// infer/integer_layers.hpp is a few nodes:
//
//   table                 Gather at byte + 256 channel
//   sums of products      ConvInteger, with weights as uint8 and zero point 128: products of uint8
//                         and int8 may clip on processors without VNNI
//   R(x, f), batch norm   Mul, Add, BitShift, Add (infer/onnx_rescaling.hpp)
//   max pool              MaxPool of bytes; Max of slices of others, which MaxPool is not for
//   mean                  ReduceSum, and Div of what an addend makes positive
//   classifier            MatMul of int64
//
// Constants have the names of their layers, nodes those of their outputs.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/integer_program.hpp>
#include <cordee/infer/onnx_graph.hpp>
#include <cordee/infer/onnx_rescaling.hpp>
#include <cordee/infer/stored_parameters.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

/// Adds the steps of an integer program to a graph.
class onnx_integers {
 public:
  onnx_integers(onnx_graph& graph, const integer_program& program)
      : graph_(graph), program_(program) {}

  /// The name of the logits, of int32, from that of the images' bytes.
  std::string add(const std::string& input) {
    image_ = {add_table(input), 0, 255, true};
    for (std::size_t k = 0; k < program_.steps.size(); ++k) {
      const integer_step& step = program_.steps[k];
      const std::string name = step.name.empty() ? concat("step", k) : step.name;
      values_.push_back(std::visit(
          [&](const auto& layer) { return add_layer(layer, step, name, value_of(step.input)); },
          step.layer));
    }
    return values_.back().name;
  }

 private:
  using ints = std::initializer_list<std::int64_t>;
  /// Numbers from low to high, of uint8 or int64.
  struct value {
    std::string name;
    std::int64_t low = 0, high = 0;
    bool bytes = false;
  };

  [[nodiscard]] const value& value_of(int step) const {
    return step < 0 ? image_ : values_[static_cast<std::size_t>(step)];
  }

  std::string add_table(const std::string& input) {
    const auto channels = static_cast<std::size_t>(program_.image.channels), size = channels * 256;
    std::vector<std::int32_t> first;
    for (std::size_t c = 0; c < channels; ++c) first.push_back(static_cast<std::int32_t>(256 * c));
    const std::string at =
        graph_.add("Add", input + ".index",
                   {graph_.cast<std::int32_t>(input + ".byte", input),
                    graph_.constant<std::int32_t>(input + ".first", shape_of(channels), first)});
    return graph_.add(
        "Gather", input + ".quantized",
        {graph_.constant<std::uint8_t>(input + ".table", {&size, 1}, program_.table), at});
  }

  value add_layer(const integer_convolution& c, const integer_step& step, const std::string& name,
                  const value& x) {
    const std::size_t filters = c.factors.size(), filter_size = c.weights.size() / filters;
    std::vector<std::uint8_t> weights;
    for (const std::int8_t w : c.weights)
      weights.push_back(static_cast<std::uint8_t>(w + weight_zero));
    const std::string sums = graph_.add(
        "ConvInteger", name + ".sums",
        {x.bytes ? x.name : bytes_of(c, name, x),
         graph_.constant<std::uint8_t>(name + ".weight", weight_shape(c.problem), weights),
         graph_.scalar(name + ".zero_point", static_cast<std::uint8_t>(c.zero_point)),
         graph_.scalar(name + ".weight_zero_point", weight_zero)},
        onnx_window(c.problem.window, c.problem.stride, c.problem.padding));
    std::vector<onnx_rescaling> rescalings;
    for (std::size_t k = 0; k < filters; ++k) {
      std::int64_t low = 0, high = 0;  // of the sums
      for (std::size_t i = k * filter_size; i < (k + 1) * filter_size; ++i) {
        const int least = -c.zero_point * c.weights[i], most = (255 - c.zero_point) * c.weights[i];
        low += std::min(least, most);
        high += std::max(least, most);
      }
      rescalings.push_back(
          onnx_rescaling::of(c.factors[k], low, high, c.addend<std::int64_t>(k), c.offset));
    }
    return output(c, step, name, graph_.cast<std::int64_t>(name + ".wide_sums", sums), rescalings);
  }
  value add_layer(const integer_batch_norm& n, const integer_step& step, const std::string& name,
                  const value& x) {
    std::vector<onnx_rescaling> rescalings;
    for (std::size_t c = 0; c < n.multiplier.size(); ++c)
      rescalings.push_back({x.low, x.high, n.multiplier[c], n.addend[c], n.shift, n.offset});
    return output(n, step, name, x.name, rescalings);
  }
  value add_layer(const ops::max_pool_problem& p, const integer_step&, const std::string& name,
                  const value& x) {
    if (x.bytes)
      return {graph_.add("MaxPool", name, {x.name}, onnx_window(p.window, p.stride, p.padding)), 0,
              255, true};
    const value padded{graph_.add("Pad", name + ".padded",
                                  {x.name,
                                   graph_.vector(name + ".pads", ints{0, 0, p.padding, p.padding, 0,
                                                                      0, p.padding, p.padding}),
                                   graph_.scalar(name + ".low", x.low)}),
                       x.low, x.high};
    const extent out = p.out();
    const value rows = max_of_slices(p, name + ".rows", padded, 2, out.height);
    return max_of_slices(p, name + ".columns", rows, 3, out.width);
  }
  value add_layer(const ops::subsample_problem& p, const integer_step&, const std::string& name,
                  const value& x) {
    const std::string pixels = slice(name + ".pixels", x.name, {0, 0}, {p.in.height, p.in.width},
                                     {2, 3}, {p.stride, p.stride});
    const int before = -p.source(0), after = p.out.channels - p.in.channels - before;
    return {
        graph_.add("Pad", name,
                   {pixels, graph_.vector(name + ".pads", ints{0, before, 0, 0, 0, after, 0, 0})}),
        std::min<std::int64_t>(x.low, 0), std::max<std::int64_t>(x.high, 0), x.bytes};
  }
  value add_layer(const mean_problem& p, const integer_step&, const std::string& name,
                  const value& x) {
    const auto pixels = static_cast<std::int64_t>(p.in.pixels()),
               o = std::max<std::int64_t>(-x.low, 0);
    const std::string sum =
        graph_.add("ReduceSum", name + ".sum", {x.name, graph_.vector(name + ".axes", ints{2, 3})});
    const std::string dividend = graph_.add(
        "Add", name + ".dividend", {sum, graph_.scalar(name + ".addend", pixels / 2 + o * pixels)});
    const std::string quotient =
        graph_.add("Div", name + ".quotient", {dividend, graph_.scalar(name + ".size", pixels)});
    return {graph_.add("Add", name, {quotient, graph_.scalar(name + ".offset", -o)}), x.low,
            x.high};
  }
  value add_layer(const integer_classifier& c, const integer_step&, const std::string& name,
                  const value& x) {
    std::vector<std::int16_t> weights;  // (features, classes)
    for (std::size_t f = 0; f < c.features; ++f)
      for (std::size_t k = 0; k < c.classes; ++k) weights.push_back(c.weights[k * c.features + f]);
    const std::vector<std::size_t> sides{c.features, c.classes};
    const std::string products = graph_.add(
        "MatMul", name + ".products",
        {graph_.add("Flatten", name + ".input", {x.name}),
         graph_.cast<std::int64_t>(name + ".wide_weight", graph_.constant<std::int16_t>(
                                                              name + ".weight", sides, weights))});
    const std::int64_t half = c.shift > 0 ? std::int64_t{1} << (c.shift - 1) : 0,
                       largest = std::max(std::abs(x.low), std::abs(x.high));
    std::vector<onnx_rescaling> sums, logits;
    for (std::size_t k = 0; k < c.classes; ++k) {
      std::int64_t bound = 0;
      for (std::size_t f = 0; f < c.features; ++f)
        bound += std::abs(c.weights[k * c.features + f]) * largest;
      sums.push_back({-bound, bound, 1, c.bias[k] + half, c.shift});
    }
    const std::size_t shape[] = {c.classes};
    const std::string sum = add_rescaling(graph_, name, name + ".sum", products, sums, shape);
    for (std::size_t k = 0; k < c.classes; ++k)
      logits.push_back(onnx_rescaling::of(c.factors[k], (sums[k].low + sums[k].addend) >> c.shift,
                                          (sums[k].high + sums[k].addend) >> c.shift));
    const std::string logit = add_rescaling(graph_, name, name, sum, logits, shape);
    return {graph_.cast<std::int32_t>("logits", logit)};
  }

  /// What a convolution or batch norm outputs, from what it rescales.
  template <class Layer>
  value output(const Layer& layer, const integer_step& step, const std::string& name,
               const std::string& x, std::span<const onnx_rescaling> channels) {
    std::string sum = add_rescaling(graph_, name, name, x, channels, shape_of(channels.size()));
    if (step.residual >= 0) {
      const value& added = value_of(step.residual);
      sum = graph_.add("Add", name + ".sum",
                       {sum, rescaled(name, name + ".residual", added, layer.residual_factor, 0)});
    }
    return clipped(name, sum, layer.low, layer.high, step.bytes == 1);
  }
  /// The bytes that a convolution reads of activations of 32 bits.
  std::string bytes_of(const integer_convolution& c, const std::string& name, const value& x) {
    const std::string input = name + ".input";
    return clipped(input, rescaled(name, input, x, c.input_factor, c.zero_point), 0, 255, true)
        .name;
  }
  /// R(x, f) + offset
  std::string rescaled(const std::string& layer, const std::string& name, const value& x,
                       const ops::fixed_point& f, std::int64_t offset) {
    const onnx_rescaling all = onnx_rescaling::of(f, x.low, x.high, 0, offset);
    return add_rescaling(graph_, layer, name, x.name, {&all, 1}, {});
  }
  value clipped(const std::string& name, const std::string& x, std::int64_t low, std::int64_t high,
                bool bytes) {
    const std::string wide =
        graph_.add("Clip", bytes ? name + ".clipped" : name,
                   {x, graph_.scalar(name + ".low", low), graph_.scalar(name + ".high", high)});
    return {bytes ? graph_.cast<std::uint8_t>(name, wide) : wide, low, high, bytes};
  }
  /// The largest of the windows along an axis.
  value max_of_slices(const ops::max_pool_problem& p, const std::string& name, const value& x,
                      int axis, int length) {
    std::string largest;
    for (int tap = 0; tap < p.window; ++tap) {
      const std::string part = slice(concat(name, tap), x.name, {tap},
                                     {tap + (length - 1) * p.stride + 1}, {axis}, {p.stride});
      largest = tap == 0 ? part : graph_.add("Max", concat(name, tap, ".max"), {largest, part});
    }
    return {largest, x.low, x.high};
  }
  std::string slice(const std::string& name, const std::string& x, ints starts, ints ends,
                    ints axes, ints steps) {
    return graph_.add(
        "Slice", name,
        {x, graph_.vector(name + ".starts", starts), graph_.vector(name + ".ends", ends),
         graph_.vector(name + ".axes", axes), graph_.vector(name + ".steps", steps)});
  }
  /// (C, 1, 1)
  static std::vector<std::size_t> shape_of(std::size_t channels) { return {channels, 1, 1}; }

  static constexpr std::uint8_t weight_zero = 128;

  onnx_graph& graph_;
  const integer_program& program_;
  value image_;
  std::vector<value> values_;  // of the steps so far
};

/// The bytes of the ONNX file of an integer network.
inline std::string onnx_bytes(const integer_program& program, double logit_step) {
  onnx_graph graph;
  const extent in = program.image;
  graph.add_input<std::uint8_t>("input", {in.channels, in.height, in.width});
  graph.add_output<std::int32_t>(onnx_integers(graph, program).add("input"),
                                 {static_cast<int>(program.classes())});
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, logit_step).ptr;
  graph.add_metadata("logit_step", {digits, end});
  return graph.encoded();
}

}  // namespace detail::infer

/// Writes the network in ONNX's integers: no number between the bytes of an image and its logits is
/// a floating-point number, and the logits are those of `run` to the bit. The file is complete or
/// absent, and folders of the path that are missing are made. Throws error that names the layer if
/// integers of 64 bits do not hold its sums, which those of a network that `from` made do.
inline void write_onnx(const std::string& path, const integer_network& net) {
  detail::infer::write_onnx_file(path, detail::infer::onnx_bytes(net.program(), net.logit_step()));
}

}  // namespace cordee::inline CORDEE_ABI
