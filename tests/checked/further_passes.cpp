// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of the passes of reducers, losses, calibration and optimizers, and kernels
// that have none to speak of, which are checked alone.
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/nn/cross_entropy.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/dropout.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/encode.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/step/step_status.hpp>

#include "tests/checked/measure.hpp"
#include "tests/checked/passes.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace checked {

namespace {

void measure_loss(table& rows) {
  using N = cordee::half;
  constexpr std::size_t samples = 32, classes = 1024;
  auto logits = filled<N>(samples * classes), gradient = filled<N>(samples * classes);
  const auto labels = filled<std::int32_t>(samples, 7);
  auto out = at.put(std::vector<metric_sums>(1));
  const std::size_t bytes = 2 * samples * classes;
  measure(rows, "loss", loss_formulas(samples, bytes, bytes, 5), [&] {
    batch_loss(cross_entropy{0.1}, classes, samples, logits.span().data,
               {labels.span().data, nullptr, nullptr}, 1, static_cast<const float*>(nullptr),
               gradient.span().data, out.span().data, at.s);
  });
}

void measure_calibration(table& rows) {
  constexpr std::size_t n = 1 << 16, bins = histogram_bins::count;
  auto x = filled<float>(n), y = filled<float>(n), g = filled<float>(n);
  auto counts = filled<double>(bins);
  const std::size_t counted = blocks_for(n, histogram_kernel::chunk_of(n)) * 4 * bins;
  measure(rows, "histogram", {{4 * n, counted}, {counted + 8 * bins, 8 * bins}},
          [&] { add_to_histogram(n, x.span().data, counts.span().data, at.s); });
  const auto quantizer = at.put(std::vector{fit_affine(0.0f, 2.0f, unsigned_bytes)});
  measure(rows, "fake quantize", {4 * n, 4 * n},
          [&] { fake_quantize(n, x.span().data, quantizer.span().data, y.span().data, at.s); });
  measure(rows, "straight through", {8 * n, 4 * n}, [&] {
    straight_through(n, x.span().data, quantizer.span().data, g.span().data, nullptr, at.s);
  });
  measure(rows, "straight through, added", {12 * n, 4 * n}, [&] {
    straight_through(n, x.span().data, quantizer.span().data, g.span().data, y.span().data, at.s);
  });
  constexpr std::size_t filters = 64, each = 576;
  auto w = filled<float>(filters * each), scales = filled<float>(filters);
  auto q = filled<std::int8_t>(filters * each);
  auto dequantized = filled<bfloat>(filters * each);
  measure(rows, "quantize filters", {4 * w.size(), 3 * w.size() + 4 * filters, 8 * w.size()}, [&] {
    quantize_filters(filters, each, w.span().data, q.span().data, dequantized.span().data,
                     scales.span().data, at.s);
  });
}

template <class P>
void measure_encode(table& rows, const std::string& name) {
  constexpr std::size_t n = 1 << 16, each = sizeof(typename P::storage);
  constexpr std::size_t scaling_bytes =
      std::is_empty_v<typename P::scaling> ? 0 : sizeof(typename P::scaling);
  constexpr std::size_t of_warps = n / 32 * scaling_bytes;
  auto x = filled<float>(n), residual = filled<float>(n, 0);
  auto q = filled<typename P::storage>(n);
  auto scaling = at.put(std::vector<typename P::scaling>(1));
  std::vector<formula> kernels;
  if (scaling_bytes > 0) {  // the maxima of chunks, and theirs
    constexpr std::size_t maxima = 8 * n / (64 * 256);
    kernels = {{4 * n, maxima}, {maxima, scaling_bytes}};
  }
  kernels.push_back({8 * n, (each + 4) * n, 8 * n + of_warps});
  measure(rows, "encode " + name, kernels, [&] {
    encode<P>(n, x.span().data, 1.0f, q.span().data, scaling.span().data, residual.span().data,
              at.s);
  });
  measure(rows, "decode " + name, {each * n, 4 * n, each * n + of_warps}, [&] {
    decode<P>(n, q.span().data, scaling.span().data, x.span().data, write_mode::overwrite, at.s);
  });
  measure(rows, "decode, added " + name, {(each + 4) * n, 4 * n}, [&] {
    decode<P>(n, q.span().data, scaling.span().data, x.span().data, write_mode::add, at.s);
  });
}

void measure_reduce(table& rows) {
  constexpr std::size_t n = 1 << 14;
  auto x = filled<float>(3 * n), y = filled<float>(n);
  float *const a = x.span().data, *const b = y.span().data;
  measure(rows, "divide", {4 * n, 4 * n}, [&] { divide(n, 3.0f, b, at.s); });
  measure(rows, "scale", {4 * n, 4 * n}, [&] { scale<float>(n, 3.0f, b, at.s); });
  measure(rows, "add, divide", {8 * n, 4 * n}, [&] { add_then_divide(n, 3.0f, a, b, at.s); });
  measure(rows, "mean of rows", {12 * n, 4 * n}, [&] { mean_of_rows(3, n, a, at.s); });
  const std::vector<double> weights{0.25, 0.25, 0.25};
  measure(rows, "mix neighbors", {16 * n, 4 * n}, [&] { mix_neighbors(n, a, weights, b, at.s); });
}

/// In fp32: the emulator's rounding to half precision has branches, behind which it sees the lanes
/// apart.
void measure_dropout(table& rows) {
  constexpr int samples = 32, numbers = 512;
  constexpr std::size_t n = std::size_t{samples} * numbers;
  auto x = filled<float>(n), y = filled<float>(n);
  measure(rows, "dropout", {4 * n, 4 * n}, [&] {
    for_each(at.s, n,
             dropout_op<float>{
                 {.rate = 0.5, .seed = 3}, 1, fast_divisor(numbers), x.span().data, y.span().data});
  });
}

/// A trainer's accept.
template <class O>
void measure_update(table& rows, const std::string& name, const O& optimizer,
                    const std::vector<formula>& kernels) {
  const std::vector<segment> segments{{"w", kind::weight, 0, 20'000},
                                      {"b", kind::bias, 20'032, 64}};
  constexpr std::size_t n = 20'096;
  auto weights = filled<float>(n), grads = filled<float>(n);
  std::vector<buffer<float, emulated>> slots;
  auto squares = filled<double>(2), grad_squares = filled<double>(2), global = filled<double>(1),
       sums = filled<double>(2);
  const auto info = at.put(std::vector{step_info{.learning_rate = 0.1}});
  optimizer_view<float, emulated, O::slots> view{};
  view.weights = weights.span();
  view.grads = grads.span();
  for (auto& slot : view.slots) {
    slots.push_back(filled<float>(n));
    slot = slots.back().span();
  }
  view.segments = segments;
  view.squared_weight_norms = squares.span();
  view.squared_grad_norms = grad_squares.span();
  view.squared_global_norm = global.span();
  view.sums = sums.span();
  view.info = info.span();
  measure(rows, name, kernels, [&] { optimizer.accept(view, {.learning_rate = 0.1}, at.s); });
}

void measure_optimizers(table& rows) {
  constexpr std::size_t n = 20'000 + 64,  // without the gap of the segments
      chunks = 5 + 1, squares = 8 * (chunks + 2);
  // Weights, for their decay and for the update: nvcc loads them once.
  const formula momentum{12 * n, 8 * n, 16 * n}, moments{16 * n, 12 * n}, constants{8, 32};
  measure_update(rows, "lars", lars{}, {momentum});
  measure_update(rows, "larc", larc{}, {momentum});
  measure_update(rows, "adam", adam{}, {constants, moments});
  measure_update(rows, "adamw", adamw{}, {constants, moments});
  measure_update(rows, "rmsprop", rmsprop{}, {moments});
  // A direction and its norms, then the weights.
  measure_update(rows, "lamb", lamb{},
                 {constants, {moments.read, moments.written + squares}, {8 * n, 4 * n}});
  // The gradient and its norms, then the update.
  measure_update(rows, "clip, sgd", clip{sgd{}, 0.1}, {{4 * n, 4 * n}, {24, 24, 32}, momentum});
  // The update, then the slow weights and those.
  measure_update(rows, "lookahead, sgd", lookahead{sgd{}, 1}, {momentum, {8 * n, 8 * n}});
}

/// Forward and backward, over ranks that are reached by the host where no ghost batches are, there
/// also of a rank without samples; evaluation.
template <Number N>
void run_batch_norm(const batch_norm_problem& p) {
  using Real = cordee::detail::precision::wide<N>;
  constexpr int V = 8, samples = 6;
  const std::size_t n = samples * blocked_layout(p.in, V).size();
  auto x = filled<N>(n), y = filled<N>(n), dy = filled<N>(n), dx = filled<N>(n);
  auto c = filled<Real>(6 * 16), saved = filled<Real>(p.saved_size(samples, V));
  Real* const of_channels = c.span().data;
  const batch_norm_tensors<N, Real> t{x.span().data,    y.span().data,     of_channels,
                                      of_channels + 16, saved.span().data, nullptr};
  statistics_allreduce over;
  if (p.ghost_batch == 0) over.call = [](void*, std::span<double>) {};
  const double count =
      batch_norm_forward<N, V, epilogue::relu>(p, samples, t, static_cast<const N*>(nullptr),
                                               of_channels + 32, of_channels + 48, over, at.s);
  batch_norm_backward<N, V, epilogue::relu>(p, samples, t, count, dy.span().data, dx.span().data,
                                            of_channels + 64, of_channels + 80,
                                            write_mode::overwrite, over, at.s);
  if (p.ghost_batch == 0) {  // a rank without samples
    const double none = batch_norm_forward<N, V, epilogue::relu>(
        p, 0, t, static_cast<const N*>(nullptr), of_channels + 32, of_channels + 48, over, at.s);
    batch_norm_backward<N, V, epilogue::relu>(p, 0, t, none, dy.span().data, dx.span().data,
                                              of_channels + 64, of_channels + 80,
                                              write_mode::overwrite, over, at.s);
  }
  batch_norm_evaluate<N, V, epilogue::relu>(p, samples, t, static_cast<const N*>(nullptr),
                                            of_channels + 32, of_channels + 48, at.s);
  CHECK(at.numbers(y)[0] >= 0);
}

}  // namespace

void measure_further_passes(table& rows) {
  measure_loss(rows);
  measure_calibration(rows);
  measure_encode<fp16>(rows, "fp16");
  measure_encode<bf16>(rows, "bf16");
  measure_encode<int8>(rows, "int8");
  measure_reduce(rows);
  measure_dropout(rows);
  measure_optimizers(rows);
}

}  // namespace checked

using namespace checked;

TEST_CASE("checked kernels: engine reference") {
  const convolution_problem p{{3, 5, 4}, 5, 3, 2, 1};
  constexpr int samples = 2;
  auto x = filled<float>(samples * p.in.size()), y = filled<float>(samples * p.out().size()),
       w = filled<float>(p.weights()), packed = filled<float>(p.weights()),
       scales = filled<float>(static_cast<std::size_t>(p.filters));
  float *const in = x.span().data, *const out = y.span().data, *const weights = w.span().data;
  reference::pack<float>(p, weights, packed.span().data, at.s);
  reference::fprop<float>(p, samples, in, packed.span().data, out, at.s);
  for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
    reference::dgrad<float>(p, samples, out, packed.span().data, in, mode, at.s);
    reference::wgrad<float>(p, samples, in, out, weights, mode, static_cast<float*>(nullptr), at.s);
  }
  const auto k = at.put(std::vector{fit_affine(0.0f, 2.0f, unsigned_bytes)});
  auto bytes = filled<std::int8_t>(p.weights());
  reference::fprop_bytes<float>(p, samples, in, k.span().data, bytes.span().data,
                                scales.span().data, out, at.s);
  CHECK(at.get(y).size() == samples * p.out().size());
}

TEST_CASE("checked kernels: residual blocks without a convolution") {
  constexpr int samples = 3;
  const subsample_problem p{{8, 7, 6}, {16, 4, 3}};
  auto x = filled<cordee::half>(samples * p.in.size()),
       y = filled<cordee::half>(samples * p.out.size());
  subsample_forward<cordee::half, 8, 8>(p, samples, x.span().data, y.span().data, at.s);
  subsample_backward<cordee::half, 8, 8>(p, samples, y.span().data, x.span().data, at.s);
  CHECK(at.numbers(x)[0] == 1);
}

TEST_CASE("checked kernels: batch norm over ghost batches, over the host, and in evaluation") {
  const extent image{10, 3, 5};
  for (const int ghost_batch : {0, 2, 6}) run_batch_norm<cordee::half>({image, ghost_batch});
  run_batch_norm<double>({image});  // whose statistics over ranks are two sums
}

TEST_CASE("checked kernels: what a trainer does around a step") {
  using namespace cordee::detail::train;
  auto status = at.put(std::vector<step_status>(1));
  const auto squares = filled<double>(5);
  auto from = filled<float>(3000), to = filled<float>(3000, 2);
  launch_single(at.s, begin_step_op{{.step = 3}, status.span().data});
  launch_single(at.s, record_norms_op{squares.span().data, 5, true, status.span().data});
  launch_single(at.s, add_local_norms_op{squares.span().data, 5, status.span().data});
  launch_single(at.s, rescale_op{{}, status.span().data});
  const step_status found = at.get(status)[0];
  CHECK(found.info.step == 3);
  CHECK(found.squared_global_norm == 5);
  CHECK(found.squared_local_norm == 5);
  for_each(
      at.s, to.size(),
      replace_op<float>{&status.span().data->nonfinite_norms, from.span().data, to.span().data});
  CHECK(at.get(to)[0] == 2);

  auto plane = filled<float>(8);
  auto records = at.put(std::vector<observed_input>(2));
  const auto updates = at.put(std::vector<cordee::detail::nn::range_update>{
      {0, 1, -1, 3, 0.5, false}, {4, 5, -2, 2, 0.5, false}});
  for_each(at.s, 2,
           cordee::detail::nn::update_ranges_op<float>{updates.span().data, plane.span().data,
                                                       records.span().data});
  recall_input(plane.span().data, plane.span().data + 1, records.span().data, at.s);
  CHECK(at.get(records)[0].has_range == 1);
}
