// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a trained network as an ONNX file (opset 17), for onnxruntime and others.
//
//   input     float (batch, channels, height, width), normalized as in evaluation
//   logits    float (batch, classes)
//
// Tensors have torchvision's names, nodes those of their layers; batch norms are nodes with running
// statistics.
//
// A network of precision int8 is written as it evaluates in training: QuantizeLinear and
// DequantizeLinear with the scale and zero point of its range precede each convolution, weights are
// int8 with a scale for each filter (also those of low_bit_weights), everything else is float. An
// integer_network is written in integers only: infer/onnx_integers.hpp.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/infer/onnx/graph.hpp>
#include <cordee/infer/program/layer_walk.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

/// Adds the layers of a network whose weights are `plane` to a graph. Values are names of tensors.
template <std::floating_point Real>
class onnx_visitor {
 public:
  using value = std::string;

  onnx_visitor(onnx_graph& graph, std::span<const Real> plane, int weight_bits)
      : graph_(graph), plane_(plane), weight_bits_(weight_bits) {}

  value convolution(const convolution_problem& p, const layer_tensors& t, const value& x) {
    const bool quantized = !t.statistics.empty();  // the input's range
    const value input = quantized ? quantized_input(t, x) : x;
    return graph_.add(
        "Conv", std::string(t.name),
        {input, quantized ? quantized_weights(p, t) : tensor(t, t.trainable[0], "weights are")},
        onnx_window(p.window, p.stride, p.padding));
  }
  value batch_norm(const extent&, const layer_tensors& t, const value& x) {
    constexpr std::string_view norm = "batch norm is";
    for (const float variance : numbers_of(t.statistics[1]))
      if (!(variance + ops::batch_norm_problem::epsilon > 0)) refuse(t, norm);
    return graph_.add(
        "BatchNormalization", std::string(t.name),
        {x, tensor(t, t.trainable[0], norm), tensor(t, t.trainable[1], norm),
         tensor(t, t.statistics[0], norm), tensor(t, t.statistics[1], norm)},
        onnx_attributes{}.number("epsilon", static_cast<float>(ops::batch_norm_problem::epsilon)));
  }
  value relu(const extent&, const value& x) { return graph_.add("Relu", x + ".relu", {x}); }
  value add(const extent&, const value& x, const value& y) {
    return graph_.add("Add", x + ".add", {x, y});
  }
  value max_pool(const ops::max_pool_problem& p, const value& x) {
    return graph_.add("MaxPool", x + ".max_pool", {x}, onnx_window(p.window, p.stride, p.padding));
  }
  value global_average_pool(const extent&, const value& x) {
    return graph_.add("GlobalAveragePool", x + ".average_pool", {x});
  }
  value subsample_pad(const ops::subsample_problem& p, const value& x) {
    using ints = std::initializer_list<std::int64_t>;
    const value pixels = graph_.add("Slice", x + ".subsample",
                                    {x, graph_.vector(x + ".starts", ints{0, 0}),
                                     graph_.vector(x + ".ends", ints{p.in.height, p.in.width}),
                                     graph_.vector(x + ".axes", ints{2, 3}),
                                     graph_.vector(x + ".steps", ints{p.stride, p.stride})});
    const int before = -p.source(0), after = p.out.channels - p.in.channels - before;
    return graph_.add("Pad", x + ".pad",
                      {pixels, graph_.vector(x + ".pads", ints{0, before, 0, 0, 0, after, 0, 0})});
  }
  value linear(const extent&, const layer_tensors& t, const value& x) {
    const value row = graph_.add("Flatten", x + ".flatten", {x});
    return graph_.add(
        "Gemm", std::string(t.name),
        {row, tensor(t, t.trainable[0], "weights are"), tensor(t, t.trainable[1], "bias is")},
        onnx_attributes{}.integer("transB", 1));
  }

 private:
  [[noreturn]] static void refuse(const layer_tensors& t, std::string_view numbers) {
    throw error(concat("write_onnx: layer \"", t.name, "\": its ", numbers, " not finite"));
  }
  /// x behind the bytes of its range.
  value quantized_input(const layer_tensors& t, const value& x) {
    const ops::real_range range{static_cast<float>(plane_[t.statistics[0].offset]),
                                static_cast<float>(plane_[t.statistics[1].offset])};
    if (!range.has_values()) nn::throw_unknown_range(t.name);
    const auto q = ops::fit_affine(range.low, range.high, ops::unsigned_bytes);
    if (!std::isfinite(q.scale)) refuse(t, "input's range is");
    const value name = concat(t.name, ".input"), scale = graph_.scalar(name + ".scale", q.scale),
                zero = graph_.scalar(name + ".zero_point", static_cast<std::uint8_t>(q.zero_point));
    return graph_.add(
        "DequantizeLinear", name,
        {graph_.add("QuantizeLinear", name + ".quantized", {x, scale, zero}), scale, zero});
  }
  /// Weights in int8, each filter with its scale.
  value quantized_weights(const convolution_problem& p, const layer_tensors& t) {
    const segment& s = t.trainable[0];
    const auto filters = static_cast<std::size_t>(p.filters), size = s.size / filters;
    const auto w = numbers_of(s);
    std::vector<std::int8_t> q(s.size), zeros(filters);
    std::vector<float> scales(filters);
    for (std::size_t k = 0; k < filters; ++k) {
      scales[k] =
          ops::quantize_channel(size, w.data() + k * size, q.data() + k * size, weight_bits_);
      if (!std::isfinite(scales[k])) refuse(t, "weights are");
    }
    const value name(s.name);
    return graph_.add("DequantizeLinear", name + ".dequantized",
                      {graph_.constant<std::int8_t>(name, shape_of(s), q),
                       graph_.constant<float>(name + ".scale", {&filters, 1}, scales),
                       graph_.constant<std::int8_t>(name + ".zero_point", {&filters, 1}, zeros)},
                      onnx_attributes{}.integer("axis", 0));
  }
  value tensor(const layer_tensors& t, const segment& s, std::string_view numbers) {
    const std::vector<float> all = numbers_of(s);
    for (const float x : all)
      if (!std::isfinite(x)) refuse(t, numbers);
    return graph_.constant<float>(std::string(s.name), shape_of(s), all);
  }
  [[nodiscard]] std::vector<float> numbers_of(const segment& s) const {
    const auto numbers = plane_.subspan(s.offset, s.size);
    return {numbers.begin(), numbers.end()};
  }
  static std::vector<std::size_t> shape_of(const segment& s) {
    std::vector<std::size_t> shape;
    for (const int side : s.shape)
      if (side > 0) shape.push_back(static_cast<std::size_t>(side));
    return shape;
  }

  onnx_graph& graph_;
  std::span<const Real> plane_;
  int weight_bits_;
};

/// The bytes of the ONNX file of a network whose weights, on the host, are `plane`.
template <class N, class Real>
std::string onnx_bytes(const N& model, std::span<const Real> plane) {
  onnx_graph graph;
  const extent in = N::input;
  graph.add_input("input", {in.channels, in.height, in.width});
  onnx_visitor<Real> visitor(graph, plane, precision::weight_bits<typename N::precision>);
  graph.add("Identity", "logits", {walk_layers(visitor, model, "input")});
  graph.add_output("logits", {N::classes});
  return graph.encoded();
}

}  // namespace detail::infer

/// Writes the network with the weights and running statistics in `plane`. The file is complete or
/// absent, and missing folders of the path are created. Throws error that names the layer if its
/// numbers are not finite as floats, or if it has no range in a network of precision int8. With a
/// trainer:
///
///   run.with_mean_model([&] {
///     if (run.comm().rank() == 0) write_onnx("net.onnx", run.model(), run.weights());
///     return 0;
///   });
template <class N>
void write_onnx(const std::string& path, const N& model,
                span_on<const typename N::precision::master, typename N::device> plane) {
  static_assert(
      requires { N::input; },
      "write_onnx writes the library's layers, which a model of your own does not have: save its "
      "weights, trainer::save, and export it where it was written");
  expects(plane.size >= N::plane_size(),
          "write_onnx: the plane is smaller than the network's table");
  const typename N::device::stream s{};
  const auto numbers = copy_to_host(model.get_device(), plane, s);
  detail::infer::write_onnx_file(
      path, detail::infer::onnx_bytes(model, std::span(std::as_const(numbers))));
}

}  // namespace cordee::inline CORDEE_ABI
