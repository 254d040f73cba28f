// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of further passes of layers: the fully connected ones, the loss in single
// precision, shortcuts without a convolution, engine `reference`, and the ranges of int8.
#include <span>
#include <string>
#include <vector>

#include <cordee/nn/cross_entropy.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>

#include "tests/checked/gemm_requests.hpp"
#include "tests/checked/measure.hpp"
#include "tests/checked/passes.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace checked {

namespace {

constexpr stream_bound any_sectors{.ratio = 1e9};  // of kernels that are the formula

void measure_single_loss(table& rows) {
  constexpr std::size_t samples = 32, classes = 1024, bytes = 4 * samples * classes;
  auto logits = filled<float>(samples * classes), gradient = filled<float>(samples * classes);
  const auto labels = filled<std::int32_t>(samples, 7);
  auto out = at.put(std::vector<metric_sums>(1));
  const auto loss = [&](float* to) {
    batch_loss(cross_entropy{0.1}, classes, samples, logits.span().data,
               {labels.span().data, nullptr, nullptr}, 1, static_cast<const float*>(nullptr), to,
               out.span().data, at.s);
  };
  const auto formulas = [&](std::size_t written, int sweeps) {
    return loss_formulas(samples, bytes, written, sweeps);
  };
  measure(rows, "loss fp32", formulas(bytes, 5), [&] { loss(gradient.span().data); });
  measure(rows, "loss fp32, evaluation", formulas(0, 4), [&] { loss(nullptr); });
}

/// Every second pixel, whose channels lie together.
void measure_subsample(table& rows) {
  using N = cordee::half;
  constexpr int samples = 2, V = 64;
  const subsample_problem p{{V, 14, 14}, {2 * V, 7, 7}};
  auto x = filled<N>(samples * p.in.size()), y = filled<N>(samples * p.out.size());
  const std::size_t sampled = y.size();  // in bytes: half of y's channels are padding
  measure(rows, "subsample", {sampled, 2 * y.size()},
          [&] { subsample_forward<N, V, 2 * V>(p, samples, x.span().data, y.span().data, at.s); });
  measure(rows, "subsample, gradient", {sampled, 2 * x.size()},
          [&] { subsample_backward<N, V, 2 * V>(p, samples, y.span().data, x.span().data, at.s); });
}

/// Rows begin at whole sectors here; those of 1,000 outputs in fp16 begin in the middle of one.
void measure_linear(table& rows) {
  constexpr std::size_t n = 40, features = 128, outputs = 96;
  constexpr linear_problem p{features, outputs, features};
  auto xs = filled<cordee::half>(n * features), ws = filled<cordee::half>(features * outputs),
       ys = filled<cordee::half>(n * outputs);
  auto bs = filled<float>(outputs), dws = filled<float>(features * outputs);
  const auto x = xs.span().data, w = ws.span().data, y = ys.span().data;
  const auto b = bs.span().data, dw = dws.span().data;
  const std::size_t x_bytes = 2 * xs.size(), w_bytes = 2 * ws.size(), y_bytes = 2 * ys.size();
  const std::size_t of_bias = n * 4 * outputs;  // by each row
  const auto tiles = [](std::size_t numbers) { return blocks_for(numbers, 32); };
  measure(rows, "linear",
          {x_bytes + w_bytes, y_bytes, tiles(outputs) * x_bytes + tiles(n) * w_bytes + of_bias},
          [&] { linear_forward(p, n, x, w, b, y, at.s); });
  measure(rows, "linear, input gradient",
          {y_bytes + w_bytes, x_bytes, tiles(features) * y_bytes + tiles(n) * w_bytes},
          [&] { linear_input_gradient(p, n, y, w, x, at.s); });
  measure(rows, "linear, weight gradient",
          {x_bytes + y_bytes, 4 * (dws.size() + outputs),
           tiles(features + 1) * y_bytes + tiles(outputs) * x_bytes},
          [&] { linear_weight_gradient(p, n, x, y, dw, b, write_mode::overwrite, at.s); });
  measure(rows, "linear by convolutions, bias", {y_bytes + 4 * outputs, y_bytes, y_bytes + of_bias},
          [&] { add_bias(n, x, features, b, y, outputs, at.s); });
  measure(rows, "linear by convolutions, bias gradient", {y_bytes, 4 * outputs},
          [&] { linear_bias_gradient(outputs, n, y, b, write_mode::overwrite, at.s); });
}

void measure_reference(table& rows) {
  const convolution_problem p{{16, 8, 8}, 32, 3, 1, 1};
  constexpr int samples = 2;
  auto x = filled<float>(samples * p.in.size()), y = filled<float>(samples * p.out().size()),
       w = filled<float>(p.weights()), packed = filled<float>(p.weights()),
       scales = filled<float>(static_cast<std::size_t>(p.filters));
  float *const in = x.span().data, *const out = y.span().data, *const weights = w.span().data;
  const std::size_t x_bytes = 4 * x.size(), y_bytes = 4 * y.size(), w_bytes = 4 * w.size(),
                    products = taps_inside(fprop_gemm<bfloat>(p, samples)) * 16 * 32;
  measure(rows, "reference pack", {w_bytes, w_bytes},
          [&] { reference::pack<float>(p, weights, packed.span().data, at.s); });
  measure(
      rows, "reference fprop", {x_bytes + w_bytes, y_bytes, 8 * products},
      [&] { reference::fprop<float>(p, samples, in, packed.span().data, out, at.s); }, any_sectors);
  for (const auto& [name, mode] :
       {std::pair{"", write_mode::overwrite}, {", added", write_mode::add}}) {
    const bool adds = mode == write_mode::add;
    measure(
        rows, std::string("reference dgrad") + name,
        {y_bytes + w_bytes + (adds ? x_bytes : 0), x_bytes, 8 * products},
        [&] { reference::dgrad<float>(p, samples, out, packed.span().data, in, mode, at.s); },
        any_sectors);
    measure(rows, std::string("reference wgrad") + name,
            {x_bytes + y_bytes + (adds ? w_bytes : 0), w_bytes, 8 * products}, [&] {
              reference::wgrad<float>(p, samples, in, out, weights, mode,
                                      static_cast<float*>(nullptr), at.s);
            });
  }
  const auto k = at.put(std::vector{fit_affine(0.0f, 2.0f, unsigned_bytes)});
  auto bytes = filled<std::int8_t>(p.weights());
  measure(
      rows, "reference int8 fprop",
      {x_bytes + bytes.size() + 4 * scales.size(), y_bytes, 5 * products},
      [&] {
        reference::fprop_bytes<float>(p, samples, in, k.span().data, bytes.span().data,
                                      scales.span().data, out, at.s);
      },
      any_sectors);
}

/// A layer's range lies in two places of a plane of weights: the sectors are of few numbers each.
void measure_ranges(table& rows) {
  using update = cordee::detail::nn::range_update;
  constexpr std::size_t layers = 53, apart = 64;
  auto plane = filled<float>(2 * apart * layers);
  auto records = at.put(std::vector<observed_input>(layers));
  std::vector<update> of_layers;
  for (std::size_t k = 0; k < layers; ++k)
    of_layers.push_back({2 * apart * k, (2 * k + 1) * apart, -1, 3, 0.5, false});
  const auto updates = at.put(of_layers);
  constexpr std::size_t range = 2 * sizeof(float), of_update = 2 * 8 + 3 * 8 + 1;
  measure(
      rows, "ranges",
      {layers * (of_update + range), layers * (range + sizeof(real_range)),
       layers * (of_update + 2 * sizeof(double) + range)},  // what was observed, behind a store
      [&] {
        for_each(at.s, layers,
                 cordee::detail::nn::update_ranges_op<float>{updates.span().data, plane.span().data,
                                                             records.span().data});
      },
      any_sectors);
  measure(
      rows, "range of a layer", {range, sizeof(affine_quantizer<float>) + 4, 2 * range},
      [&] {
        recall_input(plane.span().data, plane.span().data + apart, records.span().data, at.s);
      },
      any_sectors);
}

}  // namespace

void measure_layer_passes(table& rows) {
  measure_linear(rows);
  measure_single_loss(rows);
  measure_subsample(rows);
  measure_reference(rows);
  measure_ranges(rows);
}

}  // namespace checked
