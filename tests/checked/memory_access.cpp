// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of the main kernels, compared with memory_access.tsv: for each launch the
// sectors of global memory and the wavefronts of shared memory that are made for one of ideal, and
// the bytes of global memory beside their formulas: those that it reads and writes, each once, and
// those that its warps request, as often as they do, even if a cache has them.
//
// Whatever the table says, at most 1.1 of ideal are the wavefronts of shared memory, and the
// sectors of every main stream: an array that has at least a hundredth of the bytes that the kernel
// reads and writes. At most 1.1 of the formula are all bytes, which a formula with three numbers
// lets a launch request more often than once, by the shapes and for the reason beside it:
//
//   convolutions, pools        a window's pixels, by each of its taps; weights, by each tile of
//                              pixels; an input, by each tile of filters (gemm_requests.hpp)
//   matrix products            rows and columns, by each tile
//   batch norm, quantizers     coefficients and scalings, by each warp
//   tables of parameters       an entry, by each warp
//   losses, filters' scales    a row, by each sweep: the maximum is known behind the first
//   the first step of int8     all numbers, by the last block: their range is known behind them
//   momentum                   weights, by two loads that nvcc makes one
//   engine reference           two numbers for each product: it is the formula, and not fast
//
// CORDEE_REWRITE_TABLE=1 writes the table. CORDEE_SHOW_ACCESSES=1 prints instructions above 1.1.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/paired_columns.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checked/gemm_requests.hpp"
#include "tests/checked/measure.hpp"
#include "tests/checked/passes.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using checked::at;
using checked::filled;
using checked::formula;
using checked::fprop_requests;
using checked::measure;
using checked::table;

/// Statistics behind tiles of 32 filters are not here: in shared memory they make 1.2 of ideal.
void measure_tensor_core(table& rows) {
  using N = cordee::half;
  constexpr int samples = 2;
  constexpr std::size_t n = samples;
  for (const auto& [name, p] :
       {std::pair<std::string, convolution_problem>{"3x3 64-64", {{64, 14, 14}, 64, 3, 1, 1}},
        {"1x1 64-256", {{64, 14, 14}, 256, 1, 1, 0}},
        {"1x1 256-64", {{256, 14, 14}, 64, 1, 1, 0}},
        {"3x3/2 32-64", {{32, 15, 15}, 64, 3, 2, 1}},
        {"1x1 64-64, two splits", {{64, 24, 24}, 64, 1, 1, 0}}}) {
    auto xs = filled<N>(n * p.in.size()), ys = filled<N>(n * p.out().size()),
         packed = filled<N>(tensor_core::packed_size<N>(p)),
         work = filled<N>(tensor_core::workspace<N>(p, samples, at.s));
    auto master = filled<float>(p.weights());
    N *const x = xs.span().data, *const y = ys.span().data, *const w = packed.span().data,
             *const partial = work.span().data;
    float* const dw = master.span().data;
    const krsc_layout layout(p, p.in.channels, p.filters);
    const std::size_t x_bytes = 2 * xs.size(), y_bytes = 2 * ys.size(), w_bytes = packed.size(),
                      master_bytes = 4 * master.size(),
                      partial_bytes = plan_splits<N>(p, samples).splits * 4 * layout.size();
    constexpr auto overwrite = write_mode::overwrite;
    measure(rows, "pack " + name, {master_bytes, 2 * w_bytes},
            [&] { tensor_core::pack<N>(p, dw, w, at.s); });
    const formula fprop{x_bytes + w_bytes, y_bytes, fprop_requests<N>(p, samples)};
    measure(rows, "fprop " + name, fprop,
            [&] { tensor_core::fprop<N>(p, samples, x, w, y, at.s); });
    const implicit_gemm g = fprop_gemm<N>(p, samples);
    auto rows_of_channels = filled<float>(8 * static_cast<std::size_t>(p.filters));
    float* const of_channels = rows_of_channels.span().data;
    const batch_statistics<float> statistics{static_cast<std::size_t>(p.filters), of_channels,
                                             of_channels + p.filters, of_channels + 6 * p.filters,
                                             of_channels + 7 * p.filters};
    const std::size_t entries = checked::entry_bytes(moments_chunks(g)),
                      merged = checked::moments_written * statistics.channels;
    measure(rows, "fprop, statistics " + name,
            {fprop.read + entries, y_bytes + entries + merged, fprop.requested + entries},
            [&] { tensor_core::fprop<N>(p, samples, x, w, y, statistics, at.s); });
    const formula dgrad{y_bytes + w_bytes, x_bytes, checked::dgrad_requests<N>(p, samples)},
        parts{x_bytes + y_bytes, partial_bytes, checked::wgrad_requests<N>(p, samples)};
    measure(rows, "dgrad " + name, dgrad,
            [&] { tensor_core::dgrad<N>(p, samples, y, w, x, overwrite, at.s); });
    measure(rows, "wgrad " + name, {parts, {partial_bytes, master_bytes}},
            [&] { tensor_core::wgrad<N>(p, samples, x, y, dw, overwrite, partial, at.s); });
    measure(rows, "wgrad, dgrad " + name,
            {parts,
             {dgrad.read + partial_bytes, dgrad.written + master_bytes,
              dgrad.requested + partial_bytes}},
            [&] {
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
    // A warp finds its tensor in the table.
    const auto entries = [](std::size_t blocks, std::size_t warps) {
      return blocks * warps * sizeof(packed_tensor);
    };
    const auto measure_pack = [&](const std::string& order, bool has_crsk) {
      const auto t = packed_weights(layout, 0, 0, has_crsk);
      const auto on_device = at.put(std::vector{t});
      measure(rows, "pack table " + order + name,
              {4 * n, (has_crsk ? 4 : 2) * n, 4 * n + entries(t.tile.blocks(), 8)}, [&] {
                pack_table(on_device.span().data, 1, t, plane.span().data, packed.span().data,
                           at.s);
              });
    };
    measure_pack("", false);
    measure_pack("both orders ", true);
    auto t = packed_weights(layout, 0, 0, false);
    t.gradient_is_packed = true;
    const auto on_device = at.put(std::vector{t});
    measure(rows, std::string("unpack table ") + name,
            {2 * n, 4 * n, 2 * n + entries(t.tile.blocks(), 8)}, [&] {
              unpack_table(on_device.span().data, 1, t, t, packed.span().data, plane.span().data,
                           static_cast<const float*>(nullptr), write_mode::overwrite, at.s);
            });
    const std::size_t bytes = n + 4 * layout.padded_filters, scales = 4 * layout.filters;
    const auto q = packed_quantized_weights(layout, 0, 0, 2 * n, 2 * n + bytes);
    const auto quantized = at.put(std::vector{q});
    auto out = filled<bfloat>((2 * n + bytes + scales) / 2);
    // Weights, for the scales and for the bytes; a scale, by each warp of a filter's weights.
    measure(rows, std::string("int8 pack table ") + name,
            {{4 * n, bytes + scales, 8 * n + entries(layout.padded_filters, 4)},
             {n + scales, 2 * n, n + n / 32 * 4 + entries(q.tile.blocks(), 8)}},
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
  const std::size_t n = weights.size(), sums = packed.size() - n,
                    quantizer = sizeof(affine_quantizer<float>);
  measure(rows, "int8 pack", {{n, n}, {n, sums}},
          [&] { tensor_core::pack_bytes(p, weights.span().data, packed.span().data, at.s); });
  measure(
      rows, "int8 fprop",
      {{4 * x.size(), x.size(), 4 * x.size() + x.size() / 32 * quantizer},
       {x.size() + packed.size(), 4 * y.size(), checked::fprop_requests<std::uint8_t>(p, samples)}},
      [&] {
        tensor_core::fprop_bytes<float>(p, samples, x.span().data, k.span().data,
                                        packed.span().data, scales.span().data, y.span().data,
                                        at.s);
      });
}

void measure_pooling(table& rows) {
  using N = cordee::half;
  constexpr int V = 64, samples = 4;
  const max_pool_problem p{{V, 16, 16}, 3, 2, 1};
  const std::size_t in = samples * p.in.size(), out = samples * p.out().size();
  auto x = filled<N>(in), y = filled<N>(out), means = filled<N>(samples * V);
  auto argmax = filled<std::uint8_t>(out);
  // Of each output, or input: the pixels, or windows, that have it in common.
  const convolution_problem windows{p.in, V, p.window, p.stride, p.padding};
  const std::size_t pairs = checked::taps_inside(fprop_gemm<N>(windows, samples)) * V;
  measure(rows, "max pool", {2 * in, 3 * out, 2 * pairs}, [&] {
    max_pool_forward<N, V>(p, samples, x.span().data, y.span().data, argmax.span().data, at.s);
  });
  measure(rows, "max pool, gradient", {3 * out, 2 * in, 3 * pairs}, [&] {
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
  const extent wide_image{3, 8, 224};
  auto wide_bytes = filled<std::uint8_t>(4 * wide_image.size());
  auto pairs = filled<N>(4 * 4 * 8 * 226), windows = filled<N>(64 * 49 * 4),
       wide_windows = filled<N>(64 * 56 * 4);
  measure(rows, "normalize bytes by pairs", {wide_bytes.size(), 2 * pairs.size()},
          [&] {
            normalize_bytes_by_pairs(wide_image, 4, wide_bytes.span().data, {}, pairs.span().data,
                                     at.s);
          },
          {.ratio = 1.5});  // a warp reads 64 bytes from anywhere
  measure(rows, "widen windows", {2 * windows.size(), 2 * wide_windows.size()},
          [&] { widen_windows(64, 7, windows.span().data, wide_windows.span().data, at.s); });
  measure(rows, "narrow windows", {2 * windows.size(), 2 * windows.size()},
          [&] { narrow_windows(64, 7, wide_windows.span().data, windows.span().data, at.s); },
          {.ratio = 1.3});  // and 224 of 256
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
  // Weights, for their decay and for the update: nvcc loads them once.
  measure(rows, "sgd", {12 * numbers, 8 * numbers, 16 * numbers},
          [&] { sgd{}.accept(view, {}, at.s); });
  const std::size_t sums = 2 * 8 * segments.size();  // of a chunk, and of a segment of one chunk
  measure(rows, "norms", {4 * numbers, sums},
          [&] { segmented_squares<float>(at.s, segments, grads.span(), squares.span()); });
  auto others = filled<double>(segments.size());
  measure(rows, "norms of two planes", {8 * numbers, 2 * sums}, [&] {
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
  measure_pooling(rows);
  measure_elementwise(rows);
  measure_optimizer(rows);
  checked::measure_batch_norms(rows);
  checked::measure_further_passes(rows);
  checked::measure_layer_passes(rows);
  checked::compare_with_table(rows, CORDEE_SOURCE_DIR "/tests/checked/memory_access.tsv");
}
