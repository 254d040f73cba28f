// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of passes of layers that are no network's main ones: the loss in single
// precision, shortcuts without a convolution, engine `reference`, batch norm over ghost batches and
// over the host, and the ranges of int8.
#include <span>
#include <string>
#include <vector>

#include <cordee/nn/cross_entropy.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>

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
  measure(rows, "loss fp32", {bytes + 4 * samples, bytes + sizeof(metric_sums)},
          [&] { loss(gradient.span().data); });
  measure(rows, "loss fp32, evaluation", {bytes + 4 * samples, sizeof(metric_sums), 1.1, 11},
          [&] { loss(nullptr); });
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

void measure_reference(table& rows) {
  const convolution_problem p{{16, 8, 8}, 32, 3, 1, 1};
  constexpr int samples = 2;
  auto x = filled<float>(samples * p.in.size()), y = filled<float>(samples * p.out().size()),
       w = filled<float>(p.weights()), packed = filled<float>(p.weights()),
       scales = filled<float>(static_cast<std::size_t>(p.filters));
  float *const in = x.span().data, *const out = y.span().data, *const weights = w.span().data;
  const std::size_t x_bytes = 4 * x.size(), y_bytes = 4 * y.size(), w_bytes = 4 * w.size();
  measure(rows, "reference pack", {w_bytes, w_bytes},
          [&] { reference::pack<float>(p, weights, packed.span().data, at.s); });
  measure(
      rows, "reference fprop", {x_bytes + w_bytes, y_bytes},
      [&] { reference::fprop<float>(p, samples, in, packed.span().data, out, at.s); }, any_sectors);
  for (const auto& [name, mode] :
       {std::pair{"", write_mode::overwrite}, {", added", write_mode::add}}) {
    const bool adds = mode == write_mode::add;
    measure(
        rows, std::string("reference dgrad") + name,
        {y_bytes + w_bytes + (adds ? x_bytes : 0), x_bytes},
        [&] { reference::dgrad<float>(p, samples, out, packed.span().data, in, mode, at.s); },
        any_sectors);
    measure(rows, std::string("reference wgrad") + name,
            {x_bytes + y_bytes + (adds ? w_bytes : 0), w_bytes}, [&] {
              reference::wgrad<float>(p, samples, in, out, weights, mode,
                                      static_cast<float*>(nullptr), at.s);
            });
  }
  const auto k = at.put(std::vector{fit_affine(0.0f, 2.0f, unsigned_bytes)});
  auto bytes = filled<std::int8_t>(p.weights());
  measure(
      rows, "reference int8 fprop", {x_bytes + bytes.size() + 4 * scales.size(), y_bytes},
      [&] {
        reference::fprop_bytes<float>(p, samples, in, k.span().data, bytes.span().data,
                                      scales.span().data, out, at.s);
      },
      any_sectors);
}

/// As batch norm over the batch, in groups of two samples, each with coefficients of its own (1.2 %
/// of the bytes, read by halves as memory_access.cpp says); and with the sums over ranks made by
/// the host, which copies them and is not counted.
void measure_batch_norm_groups(table& rows) {
  using N = cordee::half;
  constexpr int V = 64, samples = 8;
  for (const auto& [name, ghost] :
       {std::pair<std::string, int>{"ghost", 2}, {"over the host", 0}}) {
    const batch_norm_problem p{{V, 14, 14}, ghost};
    const std::size_t n = samples * p.in.size(), bytes = 2 * n;
    auto x = filled<N>(n), y = filled<N>(n), dy = filled<N>(n), dx = filled<N>(n);
    auto saved = filled<float>(p.saved_size(samples, V)), of_channels = filled<float>(6 * V);
    float* const c = of_channels.span().data;
    const batch_norm_tensors<N, float> t{x.span().data, y.span().data,     c,
                                         c + V,         saved.span().data, nullptr};
    statistics_allreduce over;
    if (ghost == 0) over.call = [](void*, std::span<double>) {};
    double count = 0;
    measure(rows, "batch norm, ReLU, " + name, {2 * bytes, bytes}, [&] {
      count = batch_norm_forward<N, V, epilogue::relu>(
          p, samples, t, static_cast<const N*>(nullptr), c + 2 * V, c + 3 * V, over, at.s);
    });
    measure(rows, "batch norm, ReLU, gradient, " + name, {4 * bytes, bytes},
            [&] {
              batch_norm_backward<N, V, epilogue::relu>(p, samples, t, count, dy.span().data,
                                                        dx.span().data, c + 4 * V, c + 5 * V,
                                                        write_mode::overwrite, over, at.s);
            },
            {.share = 50});
  }
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
      rows, "ranges", {layers * (of_update + range), layers * (range + sizeof(real_range))},
      [&] {
        for_each(at.s, layers,
                 cordee::detail::nn::update_ranges_op<float>{updates.span().data, plane.span().data,
                                                             records.span().data});
      },
      any_sectors);
  measure(
      rows, "range of a layer", {range, sizeof(records.span().data[0].quantizer), 1.1, 1.5},
      [&] {
        recall_input(plane.span().data, plane.span().data + apart, records.span().data, at.s);
      },
      any_sectors);
}

}  // namespace

void measure_layer_passes(table& rows) {
  measure_single_loss(rows);
  measure_subsample(rows);
  measure_reference(rows);
  measure_batch_norm_groups(rows);
  measure_ranges(rows);
}

}  // namespace checked
