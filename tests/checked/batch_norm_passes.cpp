// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of batch norm's passes: over the batch, over ghost batches, with statistics
// shared by ranks, by the host and by the stream, and those around a quantized layer, in its first
// step and later.
//
// Coefficients of groups are more than a hundredth of a kernel's bytes, and half sectors: a thread
// reads 32 bytes of eight channels by two accesses, once for all of its rows; the second
// finds its half in the cache.
#include <span>
#include <string>
#include <vector>

#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/fused_batch_norm.hpp>
#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>

#include "tests/checked/gemm_requests.hpp"
#include "tests/checked/measure.hpp"
#include "tests/checked/passes.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace checked {

namespace {

constexpr int V = 64, samples = 8;

/// Formulas of batch norm's kernels, from those of the activations alone.
class batch_norm_formulas {
 public:
  /// With vectors of so many channels.
  batch_norm_formulas(const batch_norm_problem& p, int size) {
    const batch_norm_tiles tiling(p, samples, V, size);
    entries_ = entry_bytes(tiling.merge());
    lanes_ = tiling.groups * V;
    // Every warp holds all channels.
    of_warps_ = tiling.blocks() * (batch_norm_tiles::threads / 32) * V;
  }
  /// A pass that reads so many bytes of each channel's coefficients before the activations.
  [[nodiscard]] formula pass(formula of, std::size_t coefficients) const {
    of.requested += coefficients * of_warps_;
    return of;
  }
  /// One that also merges its chunks, and writes so many bytes of each channel.
  [[nodiscard]] formula merging_pass(formula of, std::size_t coefficients,
                                     std::size_t written) const {
    of = pass(of, coefficients);
    return {of.read + entries_, of.written + entries_ + written * lanes_, of.requested + entries_};
  }
  /// One of all groups' channels alone, by so many bytes of each, and of each channel.
  [[nodiscard]] formula of_groups(std::size_t read, std::size_t of_channel,
                                  std::size_t written) const {
    return {read * lanes_ + of_channel * V, written * V};
  }

 private:
  std::size_t entries_, lanes_, of_warps_;
};

/// `shared`: by ranks, whose sums the host or the stream adds, which is not counted.
void measure_batch_norm(table& rows, const std::string& name, int ghost_batch,
                        const statistics_allreduce& shared) {
  using N = cordee::half;
  const batch_norm_problem p{{V, 14, 14}, ghost_batch};
  const batch_norm_formulas f(p, vec_16b_size<N, V>);
  const std::size_t n = samples * p.in.size(), bytes = 2 * n;
  auto x = filled<N>(n), y = filled<N>(n), residual = filled<N>(n), dy = filled<N>(n),
       dx = filled<N>(n);
  auto saved = filled<float>(p.saved_size(samples, V)), of_channels = filled<float>(6 * V);
  float* const c = of_channels.span().data;
  const batch_norm_tensors<N, float> t{x.span().data, y.span().data,     c,
                                       c + V,         saved.span().data, nullptr};
  double count = 0;
  const auto forward = [&]<class Epilogue>(Epilogue) {
    count = batch_norm_forward<N, V, Epilogue>(p, samples, t, residual.span().data, c + 2 * V,
                                               c + 3 * V, shared, at.s);
  };
  const auto backward = [&]<class Epilogue>(Epilogue) {
    batch_norm_backward<N, V, Epilogue>(p, samples, t, count, dy.span().data, dx.span().data,
                                        c + 4 * V, c + 5 * V, write_mode::overwrite, shared, at.s);
  };
  const std::size_t message = shared ? 2 * sizeof(double) : 0;
  // A chunk's first row is its origin.
  std::vector<formula> kernels{f.merging_pass({bytes, 0}, 2, moments_written + message)};
  if (shared) kernels.push_back({28 * V, 20 * V, 36 * V});  // the mean, again for the variance
  if (ghost_batch > 0) kernels.push_back(f.of_groups(16, 8, 8));  // the running statistics
  const formula moments = kernels.front();
  kernels.push_back(f.pass({bytes, bytes}, 12));
  measure(rows, "batch norm, ReLU" + name, kernels, [&] { forward(epilogue::relu{}); });

  kernels = {f.merging_pass({2 * bytes, 0}, 12, sums_written + message)};
  if (shared) kernels.push_back({24 * V, 8 * V});
  if (ghost_batch > 0) kernels.push_back(f.of_groups(16, 0, 8));
  kernels.push_back(f.pass({2 * bytes, bytes}, 20));
  measure(rows, "batch norm, ReLU, gradient" + name, kernels, [&] { backward(epilogue::relu{}); },
          {.share = 50});
  if (!name.empty()) return;

  measure(rows, "batch norm, addition, ReLU", {moments, f.pass({2 * bytes, bytes}, 12)},
          [&] { forward(epilogue::add_relu{}); });
  measure(rows, "batch norm, addition, ReLU, gradient",
          {f.merging_pass({3 * bytes, bytes}, 4, sums_written), f.pass({2 * bytes, bytes}, 16)},
          [&] { backward(epilogue::add_relu{}); });
}

void measure_quantizing(table& rows) {
  const batch_norm_problem p{{V, 14, 14}, 0};
  const batch_norm_formulas f(p, vec_16b_size<float, V>);
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
    const bool is_first = low > 1;  // what is written is read again by the last block
    measure(rows, std::string("quantize input") + name, {4 * n, n, (is_first ? 8 : 4) * n},
            [&] { quantize_input(n, x.span().data, to, at.s); });
    measure(rows, std::string("normalize, quantize") + name,
            f.pass({(is_first ? 8 : 4) * n, 5 * n}, 12), [&] {
              batch_norm_normalize_quantizing<V, epilogue::relu>(p, samples, t, nullptr, to, at.s);
            });
  }
  measure(rows, "batch norm, quantized, gradient",
          {f.merging_pass({8 * n, 0}, 12, sums_written), f.pass({12 * n, 4 * n}, 20)}, [&] {
            batch_norm_backward_quantized<V, epilogue::relu>(
                p, samples, t, 0, dy.span().data, dx.span().data,
                {n, y.span().data, &record.span().data->quantizer, operand.span().data}, c + 7 * V,
                c + 8 * V, write_mode::overwrite, {}, at.s);
          });
}

/// In one pass with a max pool, and two batch norms whose outputs were added.
void measure_fused(table& rows) {
  using N = cordee::half;
  const batch_norm_problem p{{V, 16, 16}, 0};
  const max_pool_problem pool{p.in, 3, 2, 1};
  const std::size_t in = samples * p.in.size(), out = samples * pool.out().size();
  auto x = filled<N>(in), other = filled<N>(in), y = filled<N>(in), dx = filled<N>(in),
       pooled = filled<N>(out);
  auto argmax = filled<std::uint8_t>(out);
  auto saved = filled<float>(p.saved_size(samples, V)),
       other_saved = filled<float>(p.saved_size(samples, V)), of_channels = filled<float>(6 * V);
  float* const c = of_channels.span().data;
  const batch_norm_tensors<N, float> t{x.span().data, y.span().data,     c,
                                       c + V,         saved.span().data, nullptr};
  const convolution_problem windows{p.in, V, pool.window, pool.stride, pool.padding};
  const std::size_t pairs = checked::taps_inside(fprop_gemm<N>(windows, samples)) * V;
  // A warp has all channels of four pixels.
  const auto warps = [](std::size_t numbers) { return numbers / 256 * V; };
  measure(rows, "batch norm, ReLU, max pool", {2 * in, 5 * out, 2 * pairs + 12 * warps(out)}, [&] {
    normalized_max_pool_forward<N, V>(pool, samples, t, pooled.span().data, argmax.span().data,
                                      at.s);
  });
  const batch_norm_formulas sums({pool.out(), 0}, vec_16b_size<N, V>);
  measure(rows, "batch norm, ReLU, max pool, gradient",
          {sums.merging_pass({4 * out, 0}, 12, sums_written + 8),
           {2 * in + 3 * out, 2 * in, 2 * in + 3 * pairs + 20 * warps(in)}},
          [&] {
            normalized_max_pool_backward<N, V>(p, pool, samples, t, 1, pooled.span().data,
                                               argmax.span().data, dx.span().data, c + 4 * V,
                                               c + 5 * V, write_mode::overwrite, {}, at.s);
          },
          {.share = 50});
  measure(rows, "batch norm, ReLU, max pool, gradient of sums",
          {{24 * V, 16 * V}, {2 * in + 3 * out, 2 * in, 2 * in + 3 * pairs + 20 * warps(in)}},
          [&] {
            normalized_max_pool_backward_of_sums<N, V>(
                pool, samples, pooled.span().data, argmax.span().data,
                norm_gradients<N, float>{t, dx.span().data, c + 4 * V, c + 5 * V}, write_mode::add,
                at.s);
          },
          {.share = 50});
  const batch_norm_formulas f(p, vec_16b_size<N, V>);
  auto g = filled<N>(in);
  auto second = t;
  second.x = other.span().data;
  second.saved = other_saved.span().data;
  using of = norm_gradients<N, float>;
  measure(rows, "two batch norms, gradient of sums", f.pass({6 * in, 4 * in + 16 * V}, 40),
          [&] {
            batch_norm_backward_of_sums<N, V>(
                p, samples, g.span().data, of{t, dx.span().data, c + 2 * V, c + 3 * V},
                of{second, g.span().data, c + 4 * V, c + 5 * V}, write_mode::overwrite, at.s);
          },
          {.share = 50});
}

/// In one pass with an addition and an average pool.
void measure_pooled_sum(table& rows) {
  using N = cordee::half;
  const batch_norm_problem p{{V, 8, 8}, 0};
  const std::size_t in = samples * p.in.size(), means = std::size_t{samples} * V;
  auto x = filled<N>(in), residual = filled<N>(in), z = filled<N>(in), dx = filled<N>(in),
       sum = filled<N>(in), y = filled<N>(means);
  auto saved = filled<float>(p.saved_size(samples, V)), of_channels = filled<float>(6 * V);
  float* const c = of_channels.span().data;
  const batch_norm_tensors<N, float> t{x.span().data, z.span().data,     c,
                                       c + V,         saved.span().data, nullptr};
  constexpr std::size_t signs = sizeof(std::uint64_t) + sizeof(float);
  measure(rows, "batch norm, addition, ReLU, average pool",
          {4 * in, (signs + 2) * means, 4 * in + 12 * means}, [&] {
            normalized_average_pool_forward<N, V>(p.in, samples, t, residual.span().data,
                                                  y.span().data, at.s);
          });
  const batch_norm_formulas sums({{V, 1, 1}, 0}, vec_16b_size<N, V>);
  measure(rows, "batch norm, addition, ReLU, average pool, gradient",
          {sums.merging_pass({(signs + 2) * means + 8 * V, 0}, 0, sums_written + 8),
           {2 * in + 10 * means, 4 * in, 2 * in + (10 + 16) * means}},
          [&] {
            normalized_average_pool_backward<N, V>(p, samples, t, 1, y.span().data, sum.span().data,
                                                   dx.span().data, c + 4 * V, c + 5 * V,
                                                   write_mode::add, {}, at.s);
          },
          {.share = 50});
}

}  // namespace

void measure_batch_norms(table& rows) {
  measure_batch_norm(rows, "", 0, {});
  measure_batch_norm(rows, ", ghost", 2, {});
  measure_batch_norm(rows, ", over the host", 0, {[](void*, std::span<double>) {}});
  measure_batch_norm(rows, ", shared", 0,
                     {nullptr, nullptr, [](void*, double*, std::size_t, const void*) {}});
  measure_quantizing(rows);
  measure_fused(rows);
  measure_pooled_sum(rows);
}

}  // namespace checked
