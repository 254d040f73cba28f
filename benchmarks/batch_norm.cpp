// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm with the ReLU behind it as a share of the memory's bandwidth, with a residual added
// before the ReLU and without, on extents of ResNet-20 and ResNet-50.
//
// Bytes needed count whole passes over activations of 4 bytes a number. A statistic must be
// complete before any number that depends on it can be made, so each direction goes through them
// twice (before | after). Memory that is written without having been read is fetched by the cache
// first and counts two. Rows of coefficients are not counted.
//
//                forward                                 backward
//   relu         x | x, write y (2)            = 4       x, y, dy | x, y, dy, write dy (1)   = 7
//   add_relu     x | x, residual, write y (2)  = 5       x, y, dy, write dy (1) |
//                                                        x, dy, write dx (2)                 = 8
//
// relu's mask could be made from x again, which would take 5 passes for 7 and is not done.
//
// The bandwidth is that of a triad a <- b + 3 c, counted alike as 4 passes, on arrays as large as
// the layer's x, y and dy, twice in turn with the layer, so that what fits into a cache is there
// for both. A layer whose second pass finds what its first one left in the cache, where the triad
// finds nothing, may exceed 100 %. Figures are minima over the repetitions.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <type_traits>

#include <cordee/core/random.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/layout.hpp>

#include "benchmarks/handover.hpp"
#include "benchmarks/options.hpp"

namespace {

using namespace cordee;

struct options {
  int reps = 30, threads = 2, small = 128, large = 8;
};

constexpr const char* usage =
    "batch_norm: batch norm with ReLU (fp32) beside the memory's bandwidth\n"
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

/// One layer at work as nn/batch_norm.hpp calls it, and the shortest times seen.
struct layer {
  static constexpr int V = direct::block<float>(16);  // all channels here are multiples of it

  layer(const extent& in, int samples, const cpu& device)
      : at{in, 0},
        batch(samples),
        numbers(static_cast<std::size_t>(samples) * sample_size(in, V)),
        x(device, numbers),
        y(device, numbers),
        residual(device, numbers),
        dy(device, numbers),
        fresh(device, numbers),
        dx(device, numbers),
        rows(device, 6 * at.lanes_of(V)),
        saved(device, at.saved(samples, V)),
        scratch(device, at.scratch(samples, V)) {
    random_sequence draw(1, purpose::test, 0, 0);
    for (auto* to : {&x, &residual, &fresh})
      for (float& v : to->span()) v = static_cast<float>(draw.bits() >> 8) * 0x1p-23f - 1;
    std::fill_n(rows.span().data, at.lanes_of(V), 1.0f);
  }

  template <class Epilogue>
  void run(times& best, cpu::stream s) {
    constexpr bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    const std::size_t padded = at.lanes_of(V);
    float* const row = rows.span().data;
    const float* const added = adds ? residual.span().data : nullptr;
    // Without a residual the layer works in place, and either way dy is no more what it was.
    float* const to = adds ? dx.span().data : dy.span().data;
    // By all workers: in a network too they come from another layer and are awake.
    parallel(s, numbers, segment_alignment, [&](std::size_t first, std::size_t last) {
      std::copy(fresh.span().data + first, fresh.span().data + last, dy.span().data + first);
    });
    const batch_norm_tensors<float> t{x.span().data, y.span().data,     row,
                                      row + padded,  saved.span().data, scratch.span().data};
    const double t0 = now();
    const double count = batch_norm_forward<float, V, Epilogue>(
        at, batch, t, added, row + 2 * padded, row + 3 * padded, {}, s);
    const double t1 = now();
    batch_norm_backward<float, V, Epilogue>(at, batch, t, count, dy.span().data, to,
                                            row + 4 * padded, row + 5 * padded, into::overwrite, {},
                                            s);
    const double t2 = now();
    best.forward = std::min(best.forward, t1 - t0);
    best.backward = std::min(best.backward, t2 - t1);
  }
  void run(cpu::stream s) {
    for (int turn = 0; turn < 2; ++turn) {
      const double before = now();
      parallel(s, numbers, segment_alignment, [&](std::size_t first, std::size_t last) {
        triad(fresh.span().data + first, residual.span().data + first, dx.span().data + first,
              last - first);
      });
      memory = std::min(memory, now() - before);
    }
    run<epilogue::relu>(plain, s);  // as warm as what comes behind it only the second time
    run<epilogue::relu>(plain, s);
    run<epilogue::add_relu>(added, s);
  }
  double bytes(int passes) const { return 4.0 * passes * static_cast<double>(numbers); }

  batch_norm_problem at;
  int batch;
  std::size_t numbers;
  buffer<float, cpu> x, y, residual, dy, fresh, dx, rows, saved;
  buffer<double, cpu> scratch;
  times plain, added;
  double memory = 1e9;
};

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const cpu device(o.threads);
  const cpu::stream s = device.open();

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
  for (int rep = 0; rep < o.reps; ++rep)
    for (layer& l : layers) l.run(s);

  std::printf("%d thread(s), %.*s, %d repetitions; ms (share of the triad's bandwidth)\n",
              o.threads, static_cast<int>(isa.size()), isa.data(), o.reps);
  if (o.threads > 1)
    std::printf("a cache line goes from core to core in %.0f ns (%.0f before)\n",
                bench::handover(s) * 1e9, before * 1e9);
  std::printf("\n");
  std::printf("%-22s %7s %8s   %-15s %-15s %-15s %s\n", "layer", "MB", "triad", "relu forward",
              "relu backward", "add forward", "add backward");
  for (const layer& l : layers) {
    char name[64];
    std::snprintf(name, sizeof name, "%d x %d, %dx%d", l.batch, l.at.at.channels, l.at.at.height,
                  l.at.at.width);
    const double rate = l.bytes(4) / l.memory;
    std::printf("%-22s %7.1f %3.0f GB/s", name, l.bytes(3) * 1e-6, rate * 1e-9);
    const struct {
      double seconds;
      int passes;
    } all[] = {
        {l.plain.forward, 4}, {l.plain.backward, 7}, {l.added.forward, 5}, {l.added.backward, 8}};
    for (const auto& a : all)
      std::printf("   %6.3f (%3.0f%%)", a.seconds * 1e3,
                  100 * l.bytes(a.passes) / rate / a.seconds);
    std::printf("\n");
  }
  return 0;
}
