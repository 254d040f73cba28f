// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The published runs at their number of processors: the reducer of the composition over the
// machine's links, beside layers' times that are modelled (examples/plan/processors.hpp), with
// buckets of 16 MiB or one, whichever is faster; and what was printed, in the same parts:
//
//   update                  seconds of the run / updates; or images of an update / images a second
//   exchange of an update   (1 - scaling efficiency) of it, where that was printed
//   images/s                of one processor, without exchange
//
// The predicted update is `off` by so much from the whole run's, and `+` from the one by images a
// second. `before` is the prediction without the overhead of a pass over a layer.
//
//   recipes_simulated             all
//   recipes_simulated Goyal       one
#include <cstdio>
#include <string>
#include <string_view>

#include <cordee/core/decimal.hpp>

#include "examples/plan/networks.hpp"
#include "examples/plan/processors.hpp"
#include "recipes.hpp"

namespace {

using namespace recipes;

/// A run's machine: links from public descriptions of the systems, as far as they are known to us.
struct site {
  std::string_view authors, processor;
  double peak_share;  // 0: fitted, see below
  machine links;
  double scaling = 0, throughput = 0;  // efficiency, and images a second, as printed; 0: not known
};

/// `per_node` processors with links of `inside` bytes a second, and `out` bytes a second a node.
constexpr fat_tree nodes_of(int per_node, double inside, double out) {
  return {.gpu = {1e-6, inside},
          .node = {1e-6, out},
          .rack = {0.5e-6, 16 * out},
          .gpus_per_node = per_node,
          .nodes_per_rack = 16};
}

/// Beside what its images take, a pass over one of ResNet-50's 54 layers takes this on a V100: a
/// forward pass in 16 bits takes 3.48, 3.84, 4.39, 4.87, 6.78, 11.0, 19.8 and 38.1 ms for 1, 2, 4
/// ... 128 images (NVIDIA/DeepLearningExamples, MxNet/Classification/RN50v1.5), which 3.18 ms +
/// 0.253 ms an image gives within 7 %. For other processors it is assumed.
constexpr double layer_overhead = 3.18e-3 / 54;

/// The model of a run's processor. What processors without matrix units reach of their peak is
/// fitted to He's 29 hours, with the overhead and without.
constexpr plan::efficiency efficiency_of(const site& s, double overhead) {
  const double fitted = overhead > 0 ? 0.342 : 0.326;
  return {.flops = s.peak_share > 0 ? s.peak_share : fitted, .overhead = overhead};
}

// Scaling efficiencies as Mikami's first version (arXiv 1811.05233v1, on 1,088 V100) lists them;
// images a second by the abstracts.
const site sites[]{
    {"He", "p100", 0, nodes_of(8, 20e9, 6e9)},
    {"Goyal", "p100", 0, nodes_of(8, 20e9, 6.25e9), 0.9},
    {"You", "knl", 0, nodes_of(1, 12.5e9, 12.5e9)},
    {"Akiba", "p100", 0, nodes_of(8, 16e9, 13.6e9), 0.8},
    {"Jia", "p40", 0, nodes_of(8, 12e9, 12.5e9), 0.879},
    {"Ying", "tpu_v3", 0.6, torus{{1e-6, 70e9}, {32, 32, 1}}, 0, 1.05e6},
    {"Mikami", "v100", 0.6, nodes_of(4, 50e9, 25e9), 0.9162},
    {"Yamazaki", "v100", 0.6, nodes_of(4, 50e9, 25e9), 0, 1.73e6},
};

struct prediction {
  double step, exposed, computed;  // seconds
};

template <class Recipe>
prediction predict(const Recipe& recipe, const site& s, double overhead) {
  const published& f = recipe.figures;
  const auto* gpu = plan::processors.begin();
  while (gpu->name != s.processor) ++gpu;
  const std::vector<plan::layer> layers = plan::layers_of<resnet<50, fp32, cpu>>(true);
  const int width = sizeof(typename Recipe::precision::storage);
  const step_profile step = plan::estimate_step(*gpu, efficiency_of(s, overhead), layers,
                                                static_cast<int>(f.per_processor()), width);
  prediction best{0, 0, step.total()};
  for (const std::size_t bucket_bytes : {std::size_t{16} << 20, std::size_t{128} << 20}) {
    const simulated_steps r = simulate_steps(
        static_cast<int>(f.processors), step, [&](auto comm) { return recipe.reducer(comm); },
        {.contended = s.links}, {.bucket_bytes = bucket_bytes});
    if (best.step == 0 || r.seconds < best.step) best = {r.seconds, r.exposed, best.computed};
  }
  return best;
}

template <class Recipe>
void simulate(const Recipe& recipe, const site& s) {
  const published& f = recipe.figures;
  const prediction now = predict(recipe, s, layer_overhead), before = predict(recipe, s, 0);
  const double printed = f.seconds_a_step > 0
                             ? f.seconds_a_step
                             : f.minutes * 60 / static_cast<double>(f.counted_steps());
  const auto images = static_cast<double>(f.per_processor());
  const double update = s.throughput > 0 ? static_cast<double>(f.batch) / s.throughput : printed;
  const double computed = s.scaling > 0 ? s.scaling * update : update;
  const auto off = [](double predicted, double of) { return 100 * (predicted / of - 1); };
  std::printf(
      "%-9s %5lld %-7s %7s %7s %6s  %7s %7s %7s%s %6s  %6s %% %6s %%  "
      "%7s %6s %%\n",
      std::string(f.authors).c_str(), static_cast<long long>(f.processors),
      std::string(s.processor).c_str(), decimal::fixed(now.step, 4).c_str(),
      decimal::fixed(now.exposed, 4).c_str(), decimal::fixed(images / now.computed, 0).c_str(),
      decimal::fixed(printed, 4).c_str(), decimal::fixed(update, 4).c_str(),
      decimal::fixed(update - computed, 4).c_str(), s.scaling > 0 ? " " : "?",
      decimal::fixed(images / computed, 0).c_str(),
      decimal::with_sign(decimal::fixed(off(now.step, printed), 1)).c_str(),
      decimal::with_sign(decimal::fixed(off(now.step, update), 1)).c_str(),
      decimal::fixed(before.step, 4).c_str(),
      decimal::with_sign(decimal::fixed(off(before.step, printed), 1)).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view only = argc > 1 ? argv[1] : "";
  bool found = false;
  std::printf("%-22s  %-22s  %-32s  %-19s  %s\n", "", "simulated", "printed", "off", "before");
  std::printf("%-9s %5s %-6s  %7s %7s %6s  %7s %7s %8s %6s  %8s %8s  %8s %7s\n", "run", "ranks",
              "of", "update", "exposed", "img/s", "run's", "update", "exchange", "img/s", "run's",
              "+", "update", "off");
  recipes::for_each_recipe([&](auto recipe) {
    for (const site& s : sites)
      if (s.authors == recipe.figures.authors && (only.empty() || only == s.authors)) {
        simulate(recipe, s);
        found = true;
      }
  });
  if (found) return 0;
  std::fprintf(stderr, "error: no run of that name: %s\n", argv[1]);
  return 1;
}
