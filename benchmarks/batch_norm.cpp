// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm followed by a ReLU as a share of the memory's bandwidth, with and without a residual
// added before the ReLU, on extents of ResNet-20 and ResNet-50.
//
// Bytes are whole passes over activations of 4 bytes a number. Statistics must be complete before
// the numbers that depend on them, so each direction has two phases (before | after). A write
// without a read is a write-allocate and counts two. Rows of coefficients are not counted.
//
//                forward                                 backward
//   relu         x | x, write y (2)            = 4       x, y, dy | x, y, dy, write dy (1)   = 7
//   add_relu     x | x, residual, write y (2)  = 5       x, y, dy, write dy (1) |
//                                                        x, dy, write dx (2)                 = 8
//
// relu's mask could be computed from x again, with 5 passes instead of 7; this is not done.
//
// The bandwidth is that of a triad a <- b + 3 c, likewise 4 passes, on arrays as large as the
// layer's x, y and dy, twice in turn with the layer, so that both find in the cache what fits it. A
// layer whose second pass hits the cache, where the triad misses, may exceed 100 %. Figures are
// minima over the repetitions.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <type_traits>

#include <cordee/core/random.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/batch_norm.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/layout.hpp>

#include "benchmarks/handover.hpp"
#include "benchmarks/options.hpp"

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

struct options {
  int reps = 30, threads = 2, small = 128, large = 8;
};

constexpr const char* usage =
    "batch_norm: batch norm with ReLU (fp32) as a share of the memory's bandwidth\n"
    "  --reps N      repetitions, minima are printed   (30)\n"
    "  --threads N   workers                           (2)\n"
    "  --small N     samples of ResNet-20's layers     (128)\n"
    "  --large N     samples of ResNet-50's layers     (8)\n"
    "  --help        this\n";

options parse(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps},
                       {"--threads", &o.threads},
                       {"--small", &o.small},
                       {"--large", &o.large}});
  return o;
}

using bench::now;

[[gnu::noinline]] void triad(const float* b, const float* c, float* a, std::size_t n) {
  constexpr int V = lanes<float>;
  std::size_t i = 0;
  for (; i + V <= n; i += V)
    store<float, V>(a + i, load<float, V>(b + i) + 3.0f * load<float, V>(c + i));
  for (; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}

struct times {
  double forward = 1e9, backward = 1e9;
};

/// One layer, called as nn/batch_norm.hpp does, and its minimal times.
struct layer {
  static constexpr int V = direct::block<float>(16);  // all channels below are multiples of it

  layer(const extent& in, int samples, const cpu& device)
      : p{in, 0},
        batch(samples),
        numbers(static_cast<std::size_t>(samples) * sample_size(in, V)),
        x(device, numbers),
        y(device, numbers),
        residual(device, numbers),
        dy(device, numbers),
        dy_copy(device, numbers),
        dx(device, numbers),
        rows(device, 6 * p.padded_channels(V)),
        saved(device, p.saved_size(samples, V)),
        scratch(device, p.scratch_size(samples, V)) {
    random_sequence draw(1, purpose::test, 0, 0);
    for (auto* to : {&x, &residual, &dy_copy})
      for (float& v : to->span()) v = static_cast<float>(draw.bits() >> 8) * 0x1p-23f - 1;
    std::fill_n(rows.span().data, p.padded_channels(V), 1.0f);
  }

  template <class Epilogue>
  void run(times& best, cpu::stream s) {
    constexpr bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    const std::size_t padded = p.padded_channels(V);
    float* const row = rows.span().data;
    const float* const added = adds ? residual.span().data : nullptr;
    // Without a residual the layer works in place; either way dy is overwritten.
    float* const to = adds ? dx.span().data : dy.span().data;
    // By all workers: in a network, too, the previous layer has just woken them.
    detail::device::parallel_chunks(s, numbers, detail::core::segment_alignment,
                                    [&](std::size_t first, std::size_t last) {
                                      std::copy(dy_copy.span().data + first,
                                                dy_copy.span().data + last, dy.span().data + first);
                                    });
    const batch_norm_tensors<float> t{x.span().data, y.span().data,     row,
                                      row + padded,  saved.span().data, scratch.span().data};
    const double t0 = now();
    const double count = batch_norm_forward<float, V, Epilogue>(
        p, batch, t, added, row + 2 * padded, row + 3 * padded, {}, s);
    const double t1 = now();
    batch_norm_backward<float, V, Epilogue>(p, batch, t, count, dy.span().data, to,
                                            row + 4 * padded, row + 5 * padded,
                                            write_mode::overwrite, {}, s);
    const double t2 = now();
    best.forward = std::min(best.forward, t1 - t0);
    best.backward = std::min(best.backward, t2 - t1);
  }
  void run(cpu::stream s) {
    for (int turn = 0; turn < 2; ++turn) {
      const double before = now();
      detail::device::parallel_chunks(
          s, numbers, detail::core::segment_alignment, [&](std::size_t first, std::size_t last) {
            triad(dy_copy.span().data + first, residual.span().data + first, dx.span().data + first,
                  last - first);
          });
      memory = std::min(memory, now() - before);
    }
    run<epilogue::relu>(plain, s);  // twice, so that caches are as warm as for the pass after it
    run<epilogue::relu>(plain, s);
    run<epilogue::add_relu>(added, s);
  }
  double bytes(int passes) const { return 4.0 * passes * static_cast<double>(numbers); }

  batch_norm_problem p;
  int batch;
  std::size_t numbers;
  buffer<float, cpu> x, y, residual, dy, dy_copy, dx, rows, saved;
  buffer<double, cpu> scratch;
  times plain, added;
  double memory = 1e9;
};

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const cpu device(o.threads);
  const cpu::stream s = device.make_stream();

  std::deque<layer> layers;
  for (const extent& e : {extent{16, 32, 32}, {32, 16, 16}, {64, 8, 8}})
    layers.emplace_back(e, o.small, device);
  for (const extent& e : {extent{64, 112, 112},
                          {64, 56, 56},
                          {256, 56, 56},
                          {128, 28, 28},
                          {512, 28, 28},
                          {256, 14, 14},
                          {1024, 14, 14},
                          {512, 7, 7},
                          {2048, 7, 7}})
    layers.emplace_back(e, o.large, device);
  const double before = bench::handover(s);
  for (int rep = -1; rep < o.reps; ++rep)  // one more, to warm up
    for (layer& l : layers) l.run(s);

  std::printf("%d thread(s), %.*s, %d repetitions; ms (share of the triad's bandwidth)\n",
              o.threads, static_cast<int>(isa.size()), isa.data(), o.reps);
  if (o.threads > 1)
    std::printf("transfer of a cache line between two cores: %.0f ns (%.0f at the start)\n",
                bench::handover(s) * 1e9, before * 1e9);
  std::printf("\n");
  std::printf("%-22s %7s %8s   %-15s %-15s %-15s %s\n", "layer", "MB", "triad", "relu forward",
              "relu backward", "add forward", "add backward");
  for (const layer& l : layers) {
    char name[64];
    std::snprintf(name, sizeof name, "%d x %d, %dx%d", l.batch, l.p.in.channels, l.p.in.height,
                  l.p.in.width);
    const double bandwidth = l.bytes(4) / l.memory;
    std::printf("%-22s %7.1f %3.0f GB/s", name, l.bytes(3) * 1e-6, bandwidth * 1e-9);
    const struct {
      double seconds;
      int passes;
    } results[] = {
        {l.plain.forward, 4}, {l.plain.backward, 7}, {l.added.forward, 5}, {l.added.backward, 8}};
    for (const auto& a : results)
      std::printf("   %6.3f (%3.0f%%)", a.seconds * 1e3,
                  100 * l.bytes(a.passes) / bandwidth / a.seconds);
    std::printf("\n");
  }
  return 0;
}
