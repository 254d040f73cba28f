// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of integers in ONNX, in parts that are below 2^24 (infer/onnx/digits.hpp): the products of a
// convolution by groups of its channels, those of the classifier and the sum of a mean by digits of
// what they read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/onnx/digits.hpp>
#include <cordee/infer/onnx/graph.hpp>
#include <cordee/infer/onnx/rescaling.hpp>
#include <cordee/infer/program/integer_layers.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Numbers from low to high, of uint8 or int32.
struct onnx_value {
  std::string name;
  std::int64_t low = 0, high = 0;
  bool bytes = false;
};

inline std::string add_slice(onnx_graph& graph, const std::string& name, const std::string& x,
                             std::initializer_list<std::int64_t> starts,
                             std::initializer_list<std::int64_t> ends,
                             std::initializer_list<std::int64_t> axes,
                             std::initializer_list<std::int64_t> steps) {
  return graph.add("Slice", name,
                   {x, graph.vector(name + ".starts", starts), graph.vector(name + ".ends", ends),
                    graph.vector(name + ".axes", axes), graph.vector(name + ".steps", steps)});
}

/// The first channels of groups whose sums, of every filter and counted from the least one, are
/// exact; and the number of channels.
inline std::vector<int> exact_groups(const integer_convolution& c) {
  const std::size_t filters = c.factors.size(),
                    channels = static_cast<std::size_t>(c.problem.in.channels),
                    taps = c.weights.size() / filters / channels;
  std::vector<int> first{0};
  std::vector<std::int64_t> bounds(filters);
  for (std::size_t i = 0; i < channels; ++i) {
    std::vector<std::int64_t> of_channel(filters);
    bool fits = true;
    for (std::size_t k = 0; k < filters; ++k) {
      for (std::size_t t = 0; t < taps; ++t)
        of_channel[k] += 255 * std::abs(c.weights[(k * channels + i) * taps + t]);
      fits = fits && bounds[k] + of_channel[k] < onnx_exact;
    }
    if (!fits) {
      first.push_back(static_cast<int>(i));
      std::ranges::fill(bounds, 0);
    }
    for (std::size_t k = 0; k < filters; ++k) bounds[k] += of_channel[k];
  }
  first.push_back(static_cast<int>(channels));
  return first;
}

/// Adds the sums, of int32, of a convolution of bytes x. Weights are bytes around 128: products of
/// uint8 and int8 may clip on processors without VNNI.
inline std::string add_convolution_sums(onnx_graph& graph, const integer_convolution& c,
                                        const std::string& name, const std::string& x) {
  constexpr std::uint8_t weight_zero = 128;
  const convolution_problem& p = c.problem;
  const std::size_t filters = c.factors.size(), side = static_cast<std::size_t>(p.window),
                    channels = static_cast<std::size_t>(p.in.channels), taps = side * side;
  const std::string zero =
                        graph.scalar(name + ".zero_point", static_cast<std::uint8_t>(c.zero_point)),
                    of_weights = graph.scalar(name + ".weight_zero_point", weight_zero);
  const std::vector<int> groups = exact_groups(c);
  onnx_arithmetic to(graph, name + ".groups", {});
  const bool whole = groups.size() == 2;
  std::string sum;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    const std::string part = whole ? std::string() : concat(g);
    const auto from = static_cast<std::size_t>(groups[g]),
               end = static_cast<std::size_t>(groups[g + 1]);
    std::vector<std::uint8_t> weights;
    for (std::size_t k = 0; k < filters; ++k)
      for (std::size_t i = (k * channels + from) * taps; i < (k * channels + end) * taps; ++i)
        weights.push_back(static_cast<std::uint8_t>(c.weights[i] + weight_zero));
    const std::size_t shape[] = {filters, end - from, side, side};
    const std::string input = whole ? x
                                    : add_slice(graph, concat(name, ".channels", part), x,
                                                {groups[g]}, {groups[g + 1]}, {1}, {1});
    const std::string products = graph.add(
        "ConvInteger", concat(name, ".sums", part),
        {input, graph.constant<std::uint8_t>(concat(name, ".weight", part), shape, weights), zero,
         of_weights},
        onnx_window(p.window, p.stride, p.padding));
    sum = to.add(sum, whole ? products : to.apart(products));
  }
  return sum;
}

/// Adds floor((sum over P pixels of x + P / 2) / P) of x of int32.
inline onnx_value add_mean(onnx_graph& graph, const std::string& name, const onnx_value& x,
                           std::int64_t pixels) {
  onnx_arithmetic to(graph, name, {});
  int bits = 20;
  while (bits > 1 && (pixels << (bits + 2)) > onnx_exact) --bits;
  if ((pixels << (bits + 2)) > onnx_exact)
    throw error(
        concat("write_onnx: layer \"", name, "\": means of ", pixels, " pixels are too many"));
  const onnx_digits digits =
      to.split(to.plus<std::int32_t>(x.name, std::vector{-x.low}), x.high - x.low, bits);
  const std::size_t axes_shape = 2;
  const std::int64_t axes_of[] = {2, 3};
  const std::string axes =
      graph.constant<std::int64_t>(name + ".axes", {&axes_shape, 1}, std::span(axes_of));
  const auto size = static_cast<std::int32_t>(pixels);
  std::string mean, rest;
  for (std::size_t i = digits.digits.size(); i-- > 0;) {  // a long division
    const std::string sum = to.apart(
        to.node("ReduceSum", ".sum", to.cast<std::int32_t>(".wide", digits.digits[i]), axes));
    std::string dividend = to.add(sum, rest.empty() ? "" : to.raised<std::int32_t>(rest, bits));
    if (i == 0) dividend = to.plus<std::int32_t>(dividend, std::vector{pixels / 2});
    const std::string quotient = to.quotient(dividend, onnx_exact - 1, size);
    if (i > 0) rest = to.node("Sub", ".rest", dividend, to.plain_times(quotient, size));
    mean = to.add(quotient, mean.empty() ? "" : to.raised<std::int32_t>(mean, bits));
  }
  return {to.plus<std::int32_t>(mean, std::vector{x.low}), x.low, x.high};
}

/// Adds the logits of x (samples, features), of int32.
///
///   logit = R((bias + sum of w x) >> h, factor)
///
/// With X = x - low, digits of X and w have columns of sums of either sign. Each column takes from
/// the next one what makes it positive; their sum is positive by an addend of each class.
inline std::string add_classifier(onnx_graph& graph, const std::string& name,
                                  const integer_classifier& c, const onnx_value& x) {
  const std::int64_t range = x.high - x.low;
  // w 2^e, so that h + e are whole digits; the digits of w have the signs of w.
  int bits = 7, raised = 0;
  std::size_t count = 0;
  for (;; --bits) {
    raised = (bits - c.shift % bits) % bits;
    count = static_cast<std::size_t>((15 + raised + bits - 1) / bits);
    const auto terms = static_cast<std::int64_t>(count * c.features) << (2 * bits);
    if (terms < onnx_exact / 4 || bits == 1) break;
  }
  if ((static_cast<std::int64_t>(count * c.features) << (2 * bits)) >= onnx_exact / 4)
    throw error(
        concat("write_onnx: layer \"", name, "\": sums of ", c.features, " products are too long"));
  const auto first = static_cast<std::size_t>((c.shift + raised) / bits);
  const std::size_t shape[] = {c.classes}, sides[] = {c.features, c.classes};
  onnx_arithmetic to(graph, name, shape), input(graph, name + ".input", {});
  const onnx_digits digits =
      input.split(input.plus<std::int32_t>(x.name, std::vector{-x.low}), range, bits);

  std::vector<std::string> columns(digits.digits.size() + count - 1);
  for (std::size_t j = 0; j < count; ++j) {
    std::vector<std::int8_t> part;  // (features, classes)
    for (std::size_t f = 0; f < c.features; ++f)
      for (std::size_t k = 0; k < c.classes; ++k) {
        const int w = c.weights[k * c.features + f],
                  digit =
                      ((std::abs(w) << raised) >> (bits * static_cast<int>(j))) & ((1 << bits) - 1);
        part.push_back(static_cast<std::int8_t>(w < 0 ? -digit : digit));
      }
    const std::string weights = to.cast<std::int32_t>(
        ".wide_weight", graph.constant<std::int8_t>(concat(name, ".weight", j), sides, part));
    for (std::size_t i = 0; i < digits.digits.size(); ++i)
      columns[i + j] = to.add(columns[i + j],
                              to.node("MatMul", ".products",
                                      to.cast<std::int32_t>(".input", digits.digits[i]), weights));
  }

  // T + v is the dividend of the sum, T that of the columns; T + addend is not negative.
  const std::int64_t half = c.shift > 0 ? std::int64_t{1} << (c.shift - 1) : 0;
  std::vector<onnx_wide> addends;
  std::vector<onnx_rescaling> logits;
  std::int64_t longest = 0;
  for (std::size_t k = 0; k < c.classes; ++k) {
    onnx_signed least = 0, most = 0, at_low = onnx_signed{c.bias[k]} + half;
    for (std::size_t f = 0; f < c.features; ++f) {
      const onnx_signed w = c.weights[k * c.features + f];
      (w < 0 ? least : most) += w * range;
      at_low += w * x.low;
    }
    const auto low = static_cast<std::int64_t>((least + at_low) >> c.shift),
               high = static_cast<std::int64_t>((most + at_low) >> c.shift);
    addends.push_back(static_cast<onnx_wide>(at_low - (onnx_signed{low} << c.shift)) << raised);
    logits.push_back(onnx_rescaling::of(c.factors[k], low, high));
    longest = std::max(longest, high - low);
    const auto beyond = [](onnx_signed y) {
      return y < -2 * onnx_largest || y >= 2 * onnx_largest;
    };
    const onnx_rescaling& logit = logits.back();
    if (beyond(high - low) || beyond(logit.result(low)) || beyond(logit.result(high)) ||
        beyond(logit.result(high) - logit.result(low)))
      throw error(concat("write_onnx: layer \"", name, "\": its sums do not fit 32 bits"));
  }
  return graph.cast<std::int32_t>(
      "logits",
      add_digits_rescaling(to, to.positive_digits(columns, bits, addends, first, longest), logits));
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
