// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm followed by a ReLU as a share of the memory's bandwidth, with and without a residual
// added before the ReLU, on extents of ResNet-20 and ResNet-50.
//
// In fp32, and in bf16 in blocks of one register of floats and of two. Bytes are whole passes over
// activations of 4 or 2 bytes a number. Statistics must be complete before the numbers that depend
// on them, so each direction has two phases (before | after). A write without a read is a
// write-allocate and counts two. Rows of coefficients are not counted.
//
//                forward                                 backward
//   relu         x | x, write y (2)            = 4       x, y, dy, write dy (1) |
//                                                        x, dy, write dy (1)                 = 7
//   add_relu     x | x, residual, write y (2)  = 5       x, y, dy, write dy (1) |
//                                                        x, dy, write dx (2)                 = 8
//
// relu's mask could be computed from x again, which saves a pass; this is not done.
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
    "batch_norm: batch norm with ReLU as a share of the memory's bandwidth\n"
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

/// On the floats that the numbers' memory holds.
template <class N>
[[gnu::noinline]] void triad(const N* from_b, const N* from_c, N* to, std::size_t numbers) {
  const auto *b = reinterpret_cast<const float*>(from_b),
             *c = reinterpret_cast<const float*>(from_c);
  auto* const a = reinterpret_cast<float*>(to);
  const std::size_t n = numbers * sizeof(N) / sizeof(float);
  constexpr int V = lanes<float>;
  std::size_t i = 0;
  for (; i + V <= n; i += V)
    store<float, V>(a + i, load<float, V>(b + i) + 3.0f * load<float, V>(c + i));
  for (; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}

struct times {
  double forward = 1e9, backward = 1e9;
};

/// One layer in blocks of V, called as nn/batch_norm.hpp does, and its minimal times.
template <class N, int V>
struct layer {
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
      for (N& v : to->span())
        v = detail::precision::rounded<N>(static_cast<float>(draw.bits() >> 8) * 0x1p-23f - 1);
    std::fill_n(rows.span().data, p.padded_channels(V), 1.0f);
  }

  template <class Epilogue>
  void run(times& best, cpu::stream s) {
    constexpr bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    const std::size_t padded = p.padded_channels(V);
    float* const row = rows.span().data;
    const N* const added = adds ? residual.span().data : nullptr;
    // Without a residual the layer works in place; either way dy is overwritten.
    N* const to = adds ? dx.span().data : dy.span().data;
    // By all workers: in a network, too, the previous layer has just woken them.
    detail::device::parallel_chunks(s, numbers, detail::core::segment_alignment,
                                    [&](std::size_t first, std::size_t last) {
                                      std::copy(dy_copy.span().data + first,
                                                dy_copy.span().data + last, dy.span().data + first);
                                    });
    const batch_norm_tensors<N, float> t{x.span().data, y.span().data,     row,
                                         row + padded,  saved.span().data, scratch.span().data};
    const double t0 = now();
    const double count = batch_norm_forward<N, V, Epilogue>(p, batch, t, added, row + 2 * padded,
                                                            row + 3 * padded, {}, s);
    const double t1 = now();
    batch_norm_backward<N, V, Epilogue>(p, batch, t, count, dy.span().data, to, row + 4 * padded,
                                        row + 5 * padded, write_mode::overwrite, {}, s);
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
  double bytes(int passes) const {
    return double{sizeof(N)} * passes * static_cast<double>(numbers);
  }

  batch_norm_problem p;
  int batch;
  std::size_t numbers;
  buffer<N, cpu> x, y, residual, dy, dy_copy, dx;
  buffer<float, cpu> rows, saved;
  buffer<double, cpu> scratch;
  times plain, added;
  double memory = 1e9;
};

template <class N, int V>
void measure(const options& o, const cpu& device) {
  const cpu::stream s = device.make_stream();
  std::deque<layer<N, V>> layers;
  for (const extent& e : {extent{16, 32, 32}, {32, 16, 16}, {64, 8, 8}})
    if (e.channels % V == 0) layers.emplace_back(e, o.small, device);
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
    for (layer<N, V>& l : layers) l.run(s);

  std::printf(
      "%s in blocks of %d, %d thread(s), %.*s, %d repetitions; ms (share of the triad's "
      "bandwidth)\n",
      sizeof(N) == 2 ? "bf16" : "fp32", V, o.threads, static_cast<int>(isa.size()), isa.data(),
      o.reps);
  if (o.threads > 1)
    std::printf("transfer of a cache line between two cores: %.0f ns (%.0f at the start)\n",
                bench::handover(s) * 1e9, before * 1e9);
  std::printf("\n");
  std::printf("%-22s %7s %8s   %-15s %-15s %-15s %s\n", "layer", "MB", "triad", "relu forward",
              "relu backward", "add forward", "add backward");
  for (const layer<N, V>& l : layers) {
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
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const cpu device(o.threads);
  constexpr int V = direct::block<float>(16);  // all channels above are multiples of it
  measure<float, V>(o, device);
  measure<bfloat, V>(o, device);
  measure<bfloat, 2 * V>(o, device);
  return 0;
}
