// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes an integer_network as an ONNX file (opset 17) of integers only, with bitwise equal logits.
//
//   input     uint8 (batch, channels, height, width), the bytes of images of the network's size
//   logits    int32 (batch, classes); the metadata's `logit_step` is the value of one step
//
// Activations of bytes are uint8, those of 32 bits int32. No number has more than 32 bits: OpenVINO
// silently computes int64 and uint64 in 32 bits, and shifts, quotients and sums in floats, so
// longer numbers are split into digits (infer/onnx/digits.hpp). The logits were equal in
// onnxruntime 1.32.0 and OpenVINO 2026.4.1 on a CPU; an OpenVINO that computes in bf16 (on AMX, by
// default) needs INFERENCE_PRECISION_HINT f32. Each definition of infer/program/integer_layers.hpp
// becomes several nodes:
//
//   table                 Gather at byte + 256 channel
//   sums of products      ConvInteger (infer/onnx/sums.hpp)
//   R(x, f), batch norm   products of digits, their carries (infer/onnx/rescaling.hpp)
//   max pool              MaxPool of bytes; Max of slices of others, which MaxPool does not support
//   mean                  ReduceSum and Div of digits, from the highest on
//   classifier            MatMul of digits
//
// Constants are named after their layers, nodes after their outputs.
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
#include <cordee/infer/file/stored_parameters.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/onnx/graph.hpp>
#include <cordee/infer/onnx/rescaling.hpp>
#include <cordee/infer/onnx/sums.hpp>
#include <cordee/infer/program/integer_program.hpp>

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
  using value = onnx_value;

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
    const std::string sums =
        add_convolution_sums(graph_, c, name, x.bytes ? x.name : bytes_of(c, name, x));
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
    return output(c, step, name, sums, rescalings);
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
                                   graph_.scalar(name + ".low", static_cast<std::int32_t>(x.low))}),
                       x.low, x.high};
    const extent out = p.out();
    const value rows = max_of_slices(p, name + ".rows", padded, 2, out.height);
    return max_of_slices(p, name + ".columns", rows, 3, out.width);
  }
  value add_layer(const ops::subsample_problem& p, const integer_step&, const std::string& name,
                  const value& x) {
    const std::string pixels = add_slice(graph_, name + ".pixels", x.name, {0, 0},
                                         {p.in.height, p.in.width}, {2, 3}, {p.stride, p.stride});
    const int before = -p.source(0), after = p.out.channels - p.in.channels - before;
    return {
        graph_.add("Pad", name,
                   {pixels, graph_.vector(name + ".pads", ints{0, before, 0, 0, 0, after, 0, 0})}),
        std::min<std::int64_t>(x.low, 0), std::max<std::int64_t>(x.high, 0), x.bytes};
  }
  value add_layer(const mean_problem& p, const integer_step&, const std::string& name,
                  const value& x) {
    return add_mean(graph_, name, x, static_cast<std::int64_t>(p.in.pixels()));
  }
  value add_layer(const integer_classifier& c, const integer_step&, const std::string& name,
                  const value& x) {
    const std::string row = graph_.add("Flatten", name + ".input", {x.name});
    return {add_classifier(graph_, name, c, {row, x.low, x.high})};
  }

  /// What a convolution or batch norm outputs, from what it rescales.
  template <class Layer>
  value output(const Layer& layer, const integer_step& step, const std::string& name,
               const std::string& x, std::span<const onnx_rescaling> channels) {
    std::string residual;
    onnx_limits limits{layer.low, layer.high};
    if (step.residual >= 0) {
      const value& added = value_of(step.residual);
      const onnx_rescaling all = onnx_rescaling::of(layer.residual_factor, added.low, added.high);
      residual = add_rescaling(graph_, name, name + ".residual", added.name, {&all, 1}, {});
      limits = {layer.low - all.most(), layer.high - all.least()};
    }
    std::string sum =
        add_rescaling(graph_, name, name, x, channels, shape_of(channels.size()), limits);
    if (!residual.empty()) sum = graph_.add("Add", name + ".sum", {sum, residual});
    return clipped(name, sum, layer.low, layer.high, step.bytes == 1);
  }
  /// The bytes that a convolution reads of activations of 32 bits.
  std::string bytes_of(const integer_convolution& c, const std::string& name, const value& x) {
    const std::string input = name + ".input";
    const onnx_rescaling all = onnx_rescaling::of(c.input_factor, x.low, x.high, 0, c.zero_point);
    return clipped(input,
                   add_rescaling(graph_, name, input, x.name, {&all, 1}, {}, onnx_limits{0, 255}),
                   0, 255, true)
        .name;
  }
  value clipped(const std::string& name, const std::string& x, std::int64_t low, std::int64_t high,
                bool bytes) {
    const std::string raised = graph_.add(
        "Max", name + ".raised", {x, graph_.scalar(name + ".low", static_cast<std::int32_t>(low))});
    const std::string wide =
        graph_.add("Min", bytes ? name + ".clipped" : name,
                   {raised, graph_.scalar(name + ".high", static_cast<std::int32_t>(high))});
    return {bytes ? graph_.cast<std::uint8_t>(name, wide) : wide, low, high, bytes};
  }
  /// The largest of the windows along an axis.
  value max_of_slices(const ops::max_pool_problem& p, const std::string& name, const value& x,
                      int axis, int length) {
    std::string largest;
    for (int tap = 0; tap < p.window; ++tap) {
      const std::string part = add_slice(graph_, concat(name, tap), x.name, {tap},
                                         {tap + (length - 1) * p.stride + 1}, {axis}, {p.stride});
      largest = tap == 0 ? part : graph_.add("Max", concat(name, tap, ".max"), {largest, part});
    }
    return {largest, x.low, x.high};
  }
  /// (C, 1, 1)
  static std::vector<std::size_t> shape_of(std::size_t channels) { return {channels, 1, 1}; }

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

/// Writes the network in ONNX integers: no number between the bytes of an image and its logits is
/// floating-point, and the logits are bitwise those of `run`. The file is complete or absent, and
/// missing folders of the path are created. Throws error that names the layer if 32-bit integers
/// cannot hold its results, which never happens for a network made by `from`.
inline void write_onnx(const std::string& path, const integer_network& net) {
  detail::infer::write_onnx_file(path, detail::infer::onnx_bytes(net.program(), net.logit_step()));
}

}  // namespace cordee::inline CORDEE_ABI
