// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Forward convolutions of bytes compared with fp32, on the layers of ResNet-20, by engine `direct`:
// from bytes to sums, and from floats to floats with quantisation and dequantisation, as in a
// network in int8. Figures are minima over the repetitions, in turn.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/layout.hpp>

#include "benchmarks/options.hpp"

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

struct options {
  int reps = 30, threads = 1, batch = 128, side = 32, channels = 3;
};

constexpr const char* usage =
    "int8: forward convolutions of bytes against fp32 on the layers of ResNet-20\n"
    "  --reps N      repetitions, minima are printed   (30)\n"
    "  --threads N   workers                           (1)\n"
    "  --batch N     samples                           (128)\n"
    "  --side N      pixels of a side of the input     (32)\n"
    "  --channels N  channels of the input             (3)\n"
    "  --help        this\n";

/// A layer's buffers, and the minimal times of its three forward passes.
struct layer {
  layer(const convolution_problem& problem, int samples, const cpu& device)
      : p(problem),
        batch(samples),
        x(device, numbers(p.in)),
        y(device, numbers(p.out())),
        w(device, p.weights()),
        scales(device, static_cast<std::size_t>(p.filters)),
        packed(device, direct::packed_size<float>(p)),
        bytes(device, x.size()),
        q(device, p.weights()),
        packed_q(device, direct::packed_bytes(p)),
        sums(device, y.size()) {
    random_sequence draw(1, purpose::test, 0, 0);
    for (float& v : x.span()) v = static_cast<float>(2 * draw.uniform() - 0.5);
    for (float& v : w.span()) v = static_cast<float>(draw.uniform() - 0.5);
    for (std::size_t i = 0; i < x.size(); ++i)
      bytes.span()[i] = static_cast<std::uint8_t>(k.quantize(x.span()[i]));
    const std::size_t size = p.weights() / scales.size();
    for (std::size_t f = 0; f < scales.size(); ++f)
      scales.span()[f] = quantize_channel(size, w.span().data + f * size, q.span().data + f * size);
    direct::pack<float>(p, w.span().data, packed.span().data, device.make_stream());
    direct::pack_bytes(p, q.span().data, packed_q.span().data, device.make_stream());
  }
  [[nodiscard]] std::size_t numbers(const extent& e) const {
    return static_cast<std::size_t>(batch) * sample_size(e, direct::block<float>(e.channels));
  }
  void run(cpu::stream s) {
    const double t0 = bench::now();
    direct::fprop<float>(p, batch, x.span().data, packed.span().data, y.span().data, s);
    const double t1 = bench::now();
    direct::fprop_bytes(p, batch, bytes.span().data, k, packed_q.span().data, scales.span().data,
                        sums.span().data, s);
    const double t2 = bench::now();
    direct::fprop_bytes(p, batch, x.span().data, k, packed_q.span().data, scales.span().data,
                        y.span().data, s);
    const double times[] = {t1 - t0, t2 - t1, bench::now() - t2};
    for (int i = 0; i < 3; ++i) best[i] = std::min(best[i], times[i]);
  }

  convolution_problem p;
  int batch;
  affine_quantizer<float> k = fit_affine(-0.5f, 1.5f, unsigned_bytes);
  buffer<float, cpu> x, y, w, scales, packed;
  buffer<std::uint8_t, cpu> bytes;
  buffer<std::int8_t, cpu> q, packed_q;
  buffer<std::int32_t, cpu> sums;
  double best[3] = {1e9, 1e9, 1e9};
};

}  // namespace

int main(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps},
                       {"--threads", &o.threads},
                       {"--batch", &o.batch},
                       {"--side", &o.side},
                       {"--channels", &o.channels}});
  const cpu device(o.threads);
  const int a = o.side, b = (a + 1) / 2, c = (b + 1) / 2;
  std::vector<layer> layers;
  for (const convolution_problem& p :
       std::vector<convolution_problem>{{{o.channels, a, a}, 16, 3, 1, 1},
                                        {{16, a, a}, 16, 3, 1, 1},
                                        {{16, a, a}, 32, 3, 2, 1},
                                        {{32, b, b}, 32, 3, 1, 1},
                                        {{32, b, b}, 64, 3, 2, 1},
                                        {{64, c, c}, 64, 3, 1, 1}})
    layers.emplace_back(p, o.batch, device);
  for (int rep = -1; rep < o.reps; ++rep)  // one more, to warm up
    for (layer& l : layers) l.run(device.make_stream());

  std::printf("%d thread(s), %.*s, bytes %s, batch %d, %d repetitions\n\n", o.threads,
              static_cast<int>(isa.size()), isa.data(),
              byte_dots ? "by vpdpbusd" : "without vpdpbusd", o.batch, o.reps);
  std::printf("%-30s %10s %20s %26s\n", "layer", "fp32", "bytes to sums", "floats to floats");
  const auto print = [](const char* name, const double* ms) {
    std::printf("%-30s %7.3f ms %10.3f ms %4.2fx %16.3f ms %4.2fx\n", name, 1e3 * ms[0],
                1e3 * ms[1], ms[0] / ms[1], 1e3 * ms[2], ms[0] / ms[2]);
  };
  double total[3] = {};
  for (const layer& l : layers) {
    char name[64];
    std::snprintf(name, sizeof name, "%dx%d, %d -> %d%s", l.p.in.height, l.p.in.width,
                  l.p.in.channels, l.p.filters, l.p.stride == 2 ? ", stride 2" : "");
    print(name, l.best);
    for (int i = 0; i < 3; ++i) total[i] += l.best[i];
  }
  print("sum of the layers", total);
  return 0;
}
