// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of the main kernels, compared with memory_access.tsv: per kernel the sectors
// of global memory and the wavefronts of shared memory that are made for one of ideal, and the
// bytes of global memory read and written, each byte once per launch. The rows "all" have a pass's
// bytes beside the fewest that it could read and write.
//
// Whatever the table says, at most 1.1 of ideal are the wavefronts of shared memory, and the
// sectors of every main stream: an array that has at least a hundredth of the bytes that the kernel
// reads and writes. The bytes of a pass are at most 1.1 of its formula, but where more stands
// beside it: partial sums are written and read, and what one kernel leaves for the next. Below are
// the coefficients of batch norm, 0.1 to 0.4 % here: a thread reads 32 bytes of eight channels by
// two accesses, once for all of its rows; the second finds its half in the cache.
//
// More than 300 lines: one table, in one order, which every part writes to.
//
// CORDEE_REWRITE_TABLE=1 writes the table. CORDEE_SHOW_ACCESSES=1 prints instructions above 1.1.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/engines/tensor_core/persistent.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checked/measure.hpp"
#include "tests/checked/passes.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using checked::at;
using checked::filled;
using checked::measure;
using checked::row;
using checked::table;

void measure_tensor_core(table& rows) {
  using N = cordee::half;
  constexpr int samples = 2;
  constexpr std::size_t n = samples;
  for (const auto& [name, p] :
       {std::pair<std::string, convolution_problem>{"3x3 64-64", {{64, 14, 14}, 64, 3, 1, 1}},
        {"1x1 64-256", {{64, 14, 14}, 256, 1, 1, 0}},
        {"1x1 256-64", {{256, 14, 14}, 64, 1, 1, 0}},
        {"3x3/2 32-64", {{32, 15, 15}, 64, 3, 2, 1}}}) {
    auto xs = filled<N>(n * p.in.size()), ys = filled<N>(n * p.out().size()),
         packed = filled<N>(tensor_core::packed_size<N>(p)),
         work = filled<N>(tensor_core::workspace<N>(p, samples, at.s));
    auto master = filled<float>(p.weights());
    N *const x = xs.span().data, *const y = ys.span().data, *const w = packed.span().data,
             *const partial = work.span().data;
    float* const dw = master.span().data;
    const std::size_t x_bytes = 2 * xs.size(), y_bytes = 2 * ys.size(), w_bytes = packed.size(),
                      master_bytes = 4 * master.size();
    constexpr auto overwrite = write_mode::overwrite;
    measure(rows, "pack " + name, {master_bytes, 2 * w_bytes},
            [&] { tensor_core::pack<N>(p, dw, w, at.s); });
    measure(rows, "fprop " + name, {x_bytes + w_bytes, y_bytes},
            [&] { tensor_core::fprop<N>(p, samples, x, w, y, at.s); });
    const implicit_gemm g = fprop_gemm<N>(p, samples);
    if (g.reads_in_order())
      measure(rows, "fprop, persistent " + name, {x_bytes + w_bytes, y_bytes}, [&] {
        launch_persistent(g, x, w, identity_prologue{}, store_epilogue<N>{y}, at.s,
                          [](const auto&) { return std::size_t{3}; });
      });
    // Two doubles of each chunk are written and read, and two of each set.
    auto rows_of_channels = filled<float>(8 * static_cast<std::size_t>(p.filters));
    float* const of_channels = rows_of_channels.span().data;
    const batch_statistics<float> statistics{static_cast<std::size_t>(p.filters), of_channels,
                                             of_channels + p.filters, of_channels + 6 * p.filters,
                                             of_channels + 7 * p.filters};
    measure(rows, "fprop, statistics " + name, {x_bytes + w_bytes, y_bytes, 1.4, 1.3},
            [&] { tensor_core::fprop<N>(p, samples, x, w, y, statistics, at.s); });
    measure(rows, "dgrad " + name, {y_bytes + w_bytes, x_bytes},
            [&] { tensor_core::dgrad<N>(p, samples, y, w, x, overwrite, at.s); });
    measure(rows, "wgrad " + name, {x_bytes + y_bytes, master_bytes, 2.7, 2},
            [&] { tensor_core::wgrad<N>(p, samples, x, y, dw, overwrite, partial, at.s); });
    measure(rows, "wgrad, dgrad " + name,
            {x_bytes + 2 * y_bytes + w_bytes, master_bytes + x_bytes, 1.8, 1.8}, [&] {
              tensor_core::backward<N>(p, samples, x, y, w, dw, overwrite, partial, x, overwrite,
                                       at.s);
            });
  }
}

/// The packing of all parameters, in one order and in both, and the unpacking of gradients.
void measure_packed_table(table& rows) {
  using N = cordee::half;
  for (const auto& [name, p] :
       {std::pair{"3x3 64-64", convolution_problem{{64, 14, 14}, 64, 3, 1, 1}},
        {"1x1 64-256", {{64, 14, 14}, 256, 1, 1, 0}}}) {
    const krsc_layout layout(p, p.in.channels, p.filters);
    auto plane = filled<float>(p.weights());
    auto packed = filled<N>(2 * layout.size());
    const std::size_t n = plane.size();
    const auto measure_pack = [&](const std::string& order, bool has_crsk) {
      const auto t = packed_weights(layout, 0, 0, has_crsk);
      const auto on_device = at.put(std::vector{t});
      measure(rows, "pack table " + order + name, {4 * n, (has_crsk ? 4 : 2) * n}, [&] {
        pack_table(on_device.span().data, 1, t, plane.span().data, packed.span().data, at.s);
      });
    };
    measure_pack("", false);
    measure_pack("both orders ", true);
    auto t = packed_weights(layout, 0, 0, false);
    t.gradient_is_packed = true;
    const auto on_device = at.put(std::vector{t});
    measure(rows, std::string("unpack table ") + name, {2 * n, 4 * n}, [&] {
      unpack_table(on_device.span().data, 1, t, t, packed.span().data, plane.span().data,
                   static_cast<const float*>(nullptr), write_mode::overwrite, at.s);
    });
    const std::size_t bytes = n + 4 * layout.padded_filters, scales = 4 * layout.filters;
    const auto q = packed_quantized_weights(layout, 0, 0, 2 * n, 2 * n + bytes);
    const auto quantized = at.put(std::vector{q});
    auto out = filled<bfloat>((2 * n + bytes + scales) / 2);
    measure(rows, std::string("int8 pack table ") + name, {4 * n, 2 * n + bytes + scales, 1.3},
            [&] {
              pack_quantized_table(quantized.span().data, 1, q, plane.span().data, out.span().data,
                                   at.s);
            });
  }
}

void measure_bytes(table& rows) {
  const convolution_problem p{{32, 14, 14}, 32, 3, 1, 1};
  constexpr int samples = 2;
  const auto k = at.put(std::vector<affine_quantizer<float>>(1));
  auto x = filled<float>(samples * p.in.size()), y = filled<float>(samples * p.out().size()),
       scales = filled<float>(static_cast<std::size_t>(p.filters));
  auto weights = filled<std::int8_t>(p.weights());
  auto packed = filled<std::int8_t>(tensor_core::packed_bytes(p));
  measure(rows, "int8 pack", {weights.size(), packed.size(), 2},
          [&] { tensor_core::pack_bytes(p, weights.span().data, packed.span().data, at.s); });
  measure(rows, "int8 fprop", {4 * x.size() + packed.size(), 4 * y.size(), 1.25, 1.25}, [&] {
    tensor_core::fprop_bytes<float>(p, samples, x.span().data, k.span().data, packed.span().data,
                                    scales.span().data, y.span().data, at.s);
  });
}

/// What passes around a quantized layer do for it, with a running range and without.
void measure_quantizing(table& rows) {
  constexpr int V = 64, samples = 8;
  const batch_norm_problem p{{V, 14, 14}, 0};
  const std::size_t n = samples * p.in.size();
  auto x = filled<float>(n), y = filled<float>(n), dy = filled<float>(n);
  auto bytes = filled<std::uint8_t>(n);
  auto dx = filled<bfloat>(n), operand = filled<bfloat>(n);
  auto of_channels = filled<float>(10 * V);
  auto record = at.put(std::vector<observed_input>(1));
  float* const c = of_channels.span().data;
  const batch_norm_tensors<float, float> t{x.span().data, y.span().data, c, c + V, c + 2 * V};
  for (const auto& [name, low] : {std::pair{"", 0.0f}, {", first step", 2.0f}}) {
    const auto range = at.put(std::vector{low, 1.0f});
    const quantized_input to{bytes.span().data, range.span().data, range.span().data + 1,
                             record.span().data, 0};
    const std::size_t again = low > 1 ? 4 * n : 0;  // y, by the last block
    measure(rows, std::string("quantize input") + name, {4 * n, n},
            [&] { quantize_input(n, x.span().data, to, at.s); });
    measure(rows, std::string("normalize, quantize") + name, {4 * n + again, 5 * n}, [&] {
      batch_norm_normalize_quantizing<V, epilogue::relu>(p, samples, t, nullptr, to, at.s);
    });
  }
  measure(rows, "batch norm, quantized, gradient", {20 * n, 4 * n}, [&] {
    batch_norm_backward_quantized<V, epilogue::relu>(
        p, samples, t, 0, dy.span().data, dx.span().data,
        {n, y.span().data, &record.span().data->quantizer, operand.span().data}, c + 7 * V,
        c + 8 * V, write_mode::overwrite, {}, at.s);
  });
}

void measure_batch_norm(table& rows) {
  using N = cordee::half;
  constexpr int V = 64, samples = 8;
  const batch_norm_problem p{{V, 14, 14}, 0};
  const std::size_t n = samples * p.in.size();
  auto x = filled<N>(n), y = filled<N>(n), residual = filled<N>(n), dy = filled<N>(n),
       dx = filled<N>(n);
  auto gamma = filled<float>(V), beta = filled<float>(V),
       saved = filled<float>(p.saved_size(samples, V)), mean = filled<float>(V),
       variance = filled<float>(V), dgamma = filled<float>(V), dbeta = filled<float>(V);
  const batch_norm_tensors<N, float> t{x.span().data,    y.span().data,     gamma.span().data,
                                       beta.span().data, saved.span().data, nullptr};
  const std::size_t bytes = 2 * n;
  double count = 0;
  measure(rows, "batch norm, ReLU", {2 * bytes, bytes}, [&] {
    count = batch_norm_forward<N, V, epilogue::relu>(
        p, samples, t, residual.span().data, mean.span().data, variance.span().data, {}, at.s);
  });
  measure(rows, "batch norm, ReLU, gradient", {4 * bytes, bytes}, [&] {
    batch_norm_backward<N, V, epilogue::relu>(p, samples, t, count, dy.span().data, dx.span().data,
                                              dgamma.span().data, dbeta.span().data,
                                              write_mode::overwrite, {}, at.s);
  });
  measure(rows, "batch norm, addition, ReLU", {3 * bytes, bytes}, [&] {
    count = batch_norm_forward<N, V, epilogue::add_relu>(
        p, samples, t, residual.span().data, mean.span().data, variance.span().data, {}, at.s);
  });
  measure(rows, "batch norm, addition, ReLU, gradient", {5 * bytes, 2 * bytes}, [&] {
    batch_norm_backward<N, V, epilogue::add_relu>(
        p, samples, t, count, dy.span().data, dx.span().data, dgamma.span().data, dbeta.span().data,
        write_mode::overwrite, {}, at.s);
  });
  // Statistics shared by ranks as work of the stream; the sum over ranks is not ours.
  const statistics_allreduce shared{nullptr, nullptr,
                                    [](void*, double*, std::size_t, const void*) {}};
  measure(rows, "batch norm, ReLU, shared", {2 * bytes, bytes}, [&] {
    count = batch_norm_forward<N, V, epilogue::relu>(
        p, samples, t, residual.span().data, mean.span().data, variance.span().data, shared, at.s);
  });
  measure(rows, "batch norm, ReLU, gradient, shared", {4 * bytes, bytes}, [&] {
    batch_norm_backward<N, V, epilogue::relu>(p, samples, t, count, dy.span().data, dx.span().data,
                                              dgamma.span().data, dbeta.span().data,
                                              write_mode::overwrite, shared, at.s);
  });
}

void measure_pooling(table& rows) {
  using N = cordee::half;
  constexpr int V = 64, samples = 4;
  const max_pool_problem p{{V, 16, 16}, 3, 2, 1};
  const std::size_t in = samples * p.in.size(), out = samples * p.out().size();
  auto x = filled<N>(in), y = filled<N>(out), means = filled<N>(samples * V);
  auto argmax = filled<std::uint8_t>(out);
  measure(rows, "max pool", {2 * in, 3 * out}, [&] {
    max_pool_forward<N, V>(p, samples, x.span().data, y.span().data, argmax.span().data, at.s);
  });
  measure(rows, "max pool, gradient", {3 * out, 2 * in}, [&] {
    max_pool_backward<N, V>(p, samples, y.span().data, argmax.span().data, x.span().data,
                            write_mode::overwrite, at.s);
  });
  measure(rows, "average pool", {2 * in, 2 * means.size()}, [&] {
    average_pool_forward<N, V>(p.in, samples, x.span().data, means.span().data, at.s);
  });
  measure(rows, "average pool, gradient", {2 * means.size(), 2 * in}, [&] {
    average_pool_backward<N, V>(p.in, samples, means.span().data, x.span().data, at.s);
  });
}

void measure_elementwise(table& rows) {
  using N = cordee::half;
  constexpr std::size_t n = 1 << 14;
  auto x = filled<N>(n), y = filled<N>(n);
  auto wide = filled<float>(n);
  measure(rows, "add", {4 * n, 2 * n}, [&] { add(n, x.span().data, y.span().data, at.s); });
  measure(rows, "relu", {2 * n, 2 * n},
          [&] { relu_forward(n, x.span().data, y.span().data, at.s); });
  measure(rows, "relu, gradient", {4 * n, 2 * n},
          [&] { relu_backward(n, x.span().data, y.span().data, at.s); });
  measure(rows, "convert", {4 * n, 2 * n},
          [&] { convert(n, wide.span().data, x.span().data, at.s); });
  const extent image{3, 32, 32};
  auto bytes = filled<std::uint8_t>(4 * image.size());
  auto pixels = filled<N>(4 * 8 * image.pixels());
  measure(rows, "normalize bytes", {bytes.size(), 2 * pixels.size()}, [&] {
    normalize_bytes<N, 8>(image, 4, bytes.span().data, {}, pixels.span().data, at.s);
  });
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
  measure(rows, "linear", {2 * (xs.size() + ws.size()) + 4 * outputs, 2 * ys.size()},
          [&] { linear_forward(p, n, x, w, b, y, at.s); });
  measure(rows, "linear, input gradient", {2 * (ys.size() + ws.size()), 2 * xs.size()},
          [&] { linear_input_gradient(p, n, y, w, x, at.s); });
  measure(rows, "linear, weight gradient",
          {2 * (xs.size() + ys.size()), 4 * (dws.size() + outputs)},
          [&] { linear_weight_gradient(p, n, x, y, dw, b, write_mode::overwrite, at.s); });
  measure(rows, "linear by convolutions, bias", {2 * ys.size() + 4 * outputs, 2 * ys.size()},
          [&] { add_bias(n, x, features, b, y, outputs, at.s); });
  measure(rows, "linear by convolutions, bias gradient", {2 * ys.size(), 4 * outputs},
          [&] { linear_bias_gradient(outputs, n, y, b, write_mode::overwrite, at.s); });
}

void measure_optimizer(table& rows) {
  const std::vector<segment> segments{{"w", kind::weight, 0, 10'000},
                                      {"b", kind::bias, 10'048, 64}};
  constexpr std::size_t n = 10'112, numbers = 10'000 + 64;  // without the gap of the segments
  auto weights = filled<float>(n), grads = filled<float>(n), momentum = filled<float>(n);
  auto squares = filled<double>(segments.size());
  const auto info = at.put(std::vector<step_info>(1));
  const optimizer_view<float, emulated, 1> view{.weights = weights.span(),
                                                .grads = grads.span(),
                                                .slots = {momentum.span()},
                                                .segments = segments,
                                                .info = info.span()};
  measure(rows, "sgd", {12 * numbers, 8 * numbers}, [&] { sgd{}.accept(view, {}, at.s); });
  measure(rows, "norms", {4 * numbers, 8 * segments.size(), 1.1, 3},
          [&] { segmented_squares<float>(at.s, segments, grads.span(), squares.span()); });
  auto others = filled<double>(segments.size());
  measure(rows, "norms of two planes", {8 * numbers, 16 * segments.size(), 1.1, 3}, [&] {
    segmented_squares<float>(at.s, segments, grads.span(), squares.span(), weights.span(),
                             others.span());
  });
}

}  // namespace

TEST_CASE("memory access: at most 1.1 of ideal, and no more than recorded") {
  table rows;
  measure_tensor_core(rows);
  measure_packed_table(rows);
  measure_bytes(rows);
  measure_quantizing(rows);
  measure_batch_norm(rows);
  measure_pooling(rows);
  measure_elementwise(rows);
  measure_linear(rows);
  measure_optimizer(rows);
  checked::measure_further_passes(rows);
  checked::measure_layer_passes(rows);
  checked::compare_with_table(rows, CORDEE_SOURCE_DIR "/tests/checked/memory_access.tsv");
}
