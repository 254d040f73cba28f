// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of ResNet-20 as a share of what the machine's multiply-add units can do.
//
// The peak is measured by a loop that touches registers only, in turn with the layers, so that a
// change of clock or a neighbour's load meets both. Figures are minima over the repetitions;
// operations are 2 x macs(), padding included, so a kernel that skips padding can exceed 100 %.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/layout.hpp>

#include "benchmarks/options.hpp"

namespace {

using namespace cordee;

struct options {
  int reps = 30, threads = 1, batch = 128, side = 32, channels = 3;
};

constexpr const char* usage =
    "convolution: GF/s of engine `direct` (fp32) on the layers of ResNet-20\n"
    "  --reps N      repetitions, minima are printed   (30)\n"
    "  --threads N   workers                           (1)\n"
    "  --batch N     samples                           (128)\n"
    "  --side N      pixels of a side of the input     (32)\n"
    "  --channels N  channels of the input             (3)\n"
    "  --help        this\n";

options parse(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps},
                       {"--threads", &o.threads},
                       {"--batch", &o.batch},
                       {"--side", &o.side},
                       {"--channels", &o.channels}});
  return o;
}

using bench::now;

/// Multiply-adds on sums that all differ, or the compiler would keep one of them; enough of them to
/// hide an FMA's latency, few enough for 16 registers. About as long as a layer takes, so that the
/// clock and the neighbours of this machine treat both alike.
constexpr int sums = 12, turns = 1'000'000;

[[gnu::noinline]] float spin(const float* start) {
  constexpr int V = lanes<float>;
  const vec<float, V> a = vec<float, V>{} + start[0], b = a * 0.5f;
  vec<float, V> sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = b + start[i];
  for (int turn = 0; turn < turns; ++turn)
#pragma GCC unroll 16
    for (int i = 0; i < sums; ++i) sum[i] = sum[i] * a + b;
  for (int i = 1; i < sums; ++i) sum[0] += sum[i];
  return sum[0][0];
}
double spin_operations() { return 2.0 * turns * sums * lanes<float>; }

/// One layer with its numbers, and the shortest times seen.
struct layer {
  static constexpr int directions = 3;

  layer(const convolution_problem& problem, int samples, const cpu& device)
      : p(problem),
        batch(samples),
        x(device, size(p.in)),
        y(device, size(p.out())),
        w(device, p.weights()),
        packed(device, direct::packed_size<float>(p)),
        memory(device, direct::workspace<float>(p, samples, device.open())) {
    random_sequence draw(1, purpose::test, 0, 0);
    for (float& v : x.span()) v = static_cast<float>(draw.uniform() - 0.5);
    for (float& v : w.span()) v = static_cast<float>(draw.uniform() - 0.5);
    direct::pack<float>(p, w.span().data, packed.span().data, device.open());
  }
  std::size_t size(const extent& e) const {
    return static_cast<std::size_t>(batch) * sample_size(e, direct::block<float>(e.channels));
  }
  void run(cpu::stream s) {
    float *const in = x.span().data, *const out = y.span().data, *const image = packed.span().data;
    const double t0 = now();
    direct::fprop<float>(p, batch, in, image, out, s);
    const double t1 = now();
    direct::dgrad<float>(p, batch, out, image, in, into::overwrite, s);
    const double t2 = now();
    direct::wgrad<float>(p, batch, in, out, w.span().data, into::overwrite, memory.span().data, s);
    const double t3 = now();
    // The gradient just computed is the next input: bring it back to a size that neither grows
    // without bound nor vanishes.
    random_sequence draw(2, purpose::test, 0, 0);
    for (float& v : x.span()) v = static_cast<float>(draw.bits() >> 8) * 0x1p-24f - 0.5f;
    const double times[directions] = {t1 - t0, t2 - t1, t3 - t2};
    for (int i = 0; i < directions; ++i) best[i] = std::min(best[i], times[i]);
  }
  double operations() const { return 2.0 * static_cast<double>(p.macs()) * batch; }

  convolution_problem p;
  int batch;
  buffer<float, cpu> x, y, w, packed, memory;
  double best[directions] = {1e9, 1e9, 1e9};
};

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const cpu device(o.threads);
  const cpu::stream s = device.open();

  const int a = o.side, b = (a + 1) / 2, c = (b + 1) / 2;
  std::vector<layer> layers;
  for (const convolution_problem& p : {convolution_problem{{o.channels, a, a}, 16, 3, 1, 1},
                                       {{16, a, a}, 16, 3, 1, 1},
                                       {{16, a, a}, 32, 3, 2, 1},
                                       {{32, b, b}, 32, 3, 1, 1},
                                       {{32, b, b}, 64, 3, 2, 1},
                                       {{64, c, c}, 64, 3, 1, 1},
                                       {{16, a, a}, 32, 1, 2, 0},
                                       {{32, b, b}, 64, 1, 2, 0}})
    layers.emplace_back(p, o.batch, device);

  double peak = 1e9;
  float start[sums];
  for (int i = 0; i < sums; ++i) start[i] = 0.25f / static_cast<float>(i + 1);
  std::vector<float> sink(static_cast<std::size_t>(o.threads));
  for (int rep = 0; rep < o.reps; ++rep)
    for (layer& l : layers) {
      const double before = now();
      parallel(s, static_cast<std::size_t>(o.threads), 1,
               [&](std::size_t worker, std::size_t) { sink[worker] = spin(start); });
      peak = std::min(peak, now() - before);
      l.run(s);
    }
  const double rate = spin_operations() * o.threads / peak;

  if (sink[0] < 0) return 1;  // so that the loop has a purpose

  std::printf("%d thread(s), %.*s, batch %d, %d repetitions; FMA peak %.1f GF/s\n\n", o.threads,
              static_cast<int>(isa.size()), isa.data(), o.batch, o.reps, rate * 1e-9);
  std::printf("%-34s %9s   %-13s %-13s %-13s\n", "layer", "GFLOP", "fprop", "dgrad", "wgrad");
  double all[layer::directions] = {}, operations = 0;
  for (const layer& l : layers) {
    char name[64];
    std::snprintf(name, sizeof name, "%dx%d, %d -> %d, %dx%d%s", l.p.in.height, l.p.in.width,
                  l.p.in.channels, l.p.filters, l.p.window, l.p.window,
                  l.p.stride == 2 ? ", stride 2" : "");
    std::printf("%-34s %9.3f", name, l.operations() * 1e-9);
    for (int i = 0; i < layer::directions; ++i) {
      const double speed = l.operations() / l.best[i];
      std::printf("   %5.1f (%3.0f%%)", speed * 1e-9, 100 * speed / rate);
      all[i] += l.best[i];
    }
    operations += l.operations();
    std::printf("\n");
  }
  std::printf("%-34s %9.3f", "all, once", operations * 1e-9);
  for (const double seconds : all)
    std::printf("   %5.1f (%3.0f%%)", operations / seconds * 1e-9,
                100 * operations / seconds / rate);
  std::printf("\n");
  return 0;
}
