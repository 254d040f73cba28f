// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of ResNet-20 or ResNet-50 as a share of the machine's peak, by the engines
// `direct`, `winograd` and, where they were built, `amx` and `onednn`, layer by layer in turn;
// `direct` in bf16 as well, as a row of its own. The peak is that of the multiply-add units, for
// `amx` that of AMX's tiles in bf16.
//
// Peaks are measured by loops on registers only, in turn with the layers, so that a change of
// clock frequency or of the machine's load affects both. Figures are minima over the repetitions;
// operations are 2 x macs(), including those with padding, so a kernel that skips padding, or that
// multiplies less, can exceed 100 %. With --lines 1 it prints `engine/layer/direction seconds` and
// the peaks in operations per second instead, for benchmarks/torch_convolution.py.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/random.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/engines/amx/amx.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/winograd/engine.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/bf16.hpp>

#include "benchmarks/options.hpp"
#include "benchmarks/peak.hpp"

#ifdef WITH_ONEDNN
#include "benchmarks/onednn/engine.hpp"
#endif

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

struct options {
  int reps = 30, threads = 1, batch = 128, side = 32, channels = 3, depth = 20;
  int lines = 0, again = 1;
};

constexpr const char* usage =
    "convolution: GF/s of the engines on the layers of ResNet-20 or ResNet-50\n"
    "  --reps N      repetitions, minima are printed   (30)\n"
    "  --threads N   workers                           (1)\n"
    "  --batch N     samples                           (128)\n"
    "  --depth N     20, or 50 for 224 x 224 pixels    (20)\n"
    "  --side N      pixels of a side of the input     (32)\n"
    "  --channels N  channels of the input             (3)\n"
    "  --again N     calls in a row of each pass, of which the fastest counts: from the second on\n"
    "                operands are in the caches, as far as they fit   (1)\n"
    "  --lines 1     `engine/layer/direction seconds` alone\n"
    "  --help        this\n";

options parse(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps},
                       {"--threads", &o.threads},
                       {"--batch", &o.batch},
                       {"--depth", &o.depth},
                       {"--side", &o.side},
                       {"--channels", &o.channels},
                       {"--again", &o.again},
                       {"--lines", &o.lines}});
  return o;
}

using bench::now;

/// An engine in one number format, which is a row of the table.
template <class Engine, class N>
struct row {
  std::string_view name;
};

constexpr std::tuple rows{row<direct, float>{"direct"}, row<direct, bfloat>{"direct bf16"},
                          row<winograd, float>{"winograd"}
#if CORDEE_ABI_AMX
                          ,
                          row<amx, bfloat>{"amx bf16"}
#endif
#ifdef WITH_ONEDNN
                          ,
                          row<onednn, float>{"onednn"}
#endif
};

/// One layer with its buffers for one row.
template <class Engine, class N>
struct pass {
  pass(const convolution_problem& problem, int samples, const cpu& device)
      : p(problem),
        batch(samples),
        x(device, size(p.in)),
        y(device, size(p.out())),
        w(device, p.weights()),
        packed(device, Engine::template packed_size<N>(p)),
        memory(device, Engine::template workspace<N>(p, samples, device.make_stream())) {
    random_sequence draw(1, purpose::test, 0, 0);
    for (N& v : x.span())
      v = detail::precision::rounded<N>(static_cast<float>(draw.uniform() - 0.5));
    for (float& v : w.span()) v = static_cast<float>(draw.uniform() - 0.5);
    Engine::template pack<N>(p, w.span().data, packed.span().data, device.make_stream());
  }
  [[nodiscard]] std::size_t size(const extent& e) const {
    return static_cast<std::size_t>(batch) * sample_size(e, Engine::template block<N>(e.channels));
  }
  /// Seconds of fprop, dgrad, wgrad: of the fastest of `again` calls.
  std::array<double, 3> run(cpu::stream s, int again) {
    N *const in = x.span().data, *const out = y.span().data, *const weights = packed.span().data;
    const auto fastest = [again](const auto& call) {
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < again; ++i) {
        const double start = now();
        call();
        least = std::min(least, now() - start);
      }
      return least;
    };
    const double fprop = fastest([&] { Engine::template fprop<N>(p, batch, in, weights, out, s); });
    double dgrad = 0;
    if (p.in.channels > 4)  // the gradient of the network's input is not needed
      dgrad = fastest(
          [&] { Engine::template dgrad<N>(p, batch, out, weights, in, write_mode::overwrite, s); });
    const double wgrad = fastest([&] {
      Engine::template wgrad<N>(p, batch, in, out, w.span().data, write_mode::overwrite,
                                memory.span().data, s);
    });
    // dgrad has overwritten the input: draw it again, or numbers would grow or vanish.
    random_sequence draw(2, purpose::test, 0, 0);
    for (N& v : x.span())
      v = detail::precision::rounded<N>(static_cast<float>(draw.bits() >> 8) * 0x1p-24f - 0.5f);
    return {fprop, dgrad, wgrad};
  }

  convolution_problem p;
  int batch;
  buffer<N, cpu> x, y;
  buffer<float, cpu> w;
  buffer<N, cpu> packed, memory;
};

/// One layer of one row, and its minimal times.
struct layer {
  static constexpr int directions = 3;

  template <class Engine, class N>
  layer(row<Engine, N> r, const convolution_problem& problem, int samples, const cpu& device)
      : p(problem),
        batch(samples),
        engine(r.name),
        time([work = std::make_shared<pass<Engine, N>>(problem, samples, device)](
                 cpu::stream s, int again) { return work->run(s, again); }) {}
  void run(cpu::stream s, int again) {
    const auto times = time(s, again);
    for (std::size_t i = 0; i < directions; ++i) best[i] = std::min(best[i], times[i]);
  }
  [[nodiscard]] double operations() const { return 2.0 * static_cast<double>(p.macs()) * batch; }

  convolution_problem p;
  int batch;
  std::string_view engine;
  std::function<std::array<double, directions>(cpu::stream, int)> time;
  std::array<double, directions> best{1e9, 1e9, 1e9};
};

// The distinct layers of ResNet-50 v1.5.
std::vector<convolution_problem> layers_of_resnet50() {
  std::vector<convolution_problem> problems{{{3, 224, 224}, 64, 7, 2, 3}};
  for (int stage = 0, channels = 64, side = 56; stage < 4; ++stage) {
    const int width = 64 << stage, stride = stage == 0 ? 1 : 2, small = side / stride;
    problems.push_back({{channels, side, side}, width, 1, 1, 0});
    if (stride == 2) problems.push_back({{width, side, side}, width, 3, 2, 1});
    problems.push_back({{channels, side, side}, 4 * width, 1, stride, 0});
    problems.push_back({{width, small, small}, width, 3, 1, 1});
    if (stride == 2) problems.push_back({{width, small, small}, 4 * width, 1, 1, 0});
    problems.push_back({{4 * width, small, small}, width, 1, 1, 0});
    channels = 4 * width;
    side = small;
  }
  return problems;
}

std::vector<convolution_problem> layers_of(const options& o) {
  if (o.depth == 50) return layers_of_resnet50();
  const int a = o.side, b = (a + 1) / 2, c = (b + 1) / 2;
  return {{{o.channels, a, a}, 16, 3, 1, 1}, {{16, a, a}, 16, 3, 1, 1}, {{16, a, a}, 32, 3, 2, 1},
          {{32, b, b}, 32, 3, 1, 1},         {{32, b, b}, 64, 3, 2, 1}, {{64, c, c}, 64, 3, 1, 1},
          {{16, a, a}, 32, 1, 2, 0},         {{32, b, b}, 64, 1, 2, 0}};
}

std::string name_of(const convolution_problem& p) {
  return concat(p.in.height, "x", p.in.width, ", ", p.in.channels, " -> ", p.filters, ", ",
                p.window, "x", p.window, p.stride == 2 ? ", stride 2" : "");
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  const cpu device(o.threads);
  const cpu::stream s = device.make_stream();

  std::vector<layer> layers;
  for (const convolution_problem& p : layers_of(o))
    std::apply([&](auto... r) { (layers.emplace_back(r, p, o.batch, device), ...); }, rows);

  bench::fma_peak peak(o.threads);
  bench::tile_peak tiles(o.threads);
  for (int rep = -1; rep < o.reps; ++rep)  // one more, to warm up
    for (layer& l : layers) {
      peak.time(s);
      tiles.time(s);
      l.run(s, o.again);
    }
  if (!peak.is_plausible()) return 1;
  const auto peak_of = [&](std::string_view engine) {
    return engine == "amx bf16" && tiles.flops() > 0 ? tiles.flops() : peak.flops();
  };
  if (o.lines != 0) {
    std::printf("peak/fma %.0f\npeak/amx %.0f\n", peak.flops(), tiles.flops());
    constexpr std::array directions{"fprop", "dgrad", "wgrad"};
    for (const layer& l : layers)
      for (std::size_t i = 0; i < layer::directions; ++i)
        if (i != 1 || l.p.in.channels > 4)
          std::printf("%.*s/%s/%s %.9f\n", static_cast<int>(l.engine.size()), l.engine.data(),
                      name_of(l.p).c_str(), directions[i], l.best[i]);
    return 0;
  }

  std::printf(
      "%d thread(s), %.*s, batch %d, %d repetitions; FMA peak %.1f GF/s, AMX peak %.1f GF/s\n\n",
      o.threads, static_cast<int>(isa.size()), isa.data(), o.batch, o.reps, peak.flops() * 1e-9,
      tiles.flops() * 1e-9);
  std::printf("%-34s %9s %-11s   %-13s %-13s %-13s\n", "layer", "GFLOP", "engine", "fprop", "dgrad",
              "wgrad");
  std::map<std::string_view, std::array<double, layer::directions>> seconds, operations;
  const auto shares = [&](std::string_view engine, double done, double time) {
    if (done > 0)
      std::printf("   %5.1f (%3.0f%%)", done / time * 1e-9, 100 * done / time / peak_of(engine));
    else
      std::printf("   %-12s", "");
  };
  for (const layer& l : layers) {
    std::printf("%-34s %9.3f %-11s", name_of(l.p).c_str(), l.operations() * 1e-9, l.engine.data());
    for (std::size_t i = 0; i < layer::directions; ++i) {
      const double done = i == 1 && l.p.in.channels <= 4 ? 0 : l.operations();
      shares(l.engine, done, l.best[i]);
      operations[l.engine][i] += done;
      seconds[l.engine][i] += done > 0 ? l.best[i] : 0;
    }
    std::printf("\n");
  }
  for (const auto& [engine, done] : operations) {
    std::printf("%-34s %9s %-11s", "sum of the layers", "", engine.data());
    for (std::size_t i = 0; i < layer::directions; ++i) shares(engine, done[i], seconds[engine][i]);
    std::printf("\n");
  }
  return 0;
}
