// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The published runs at their number of processors: the reducer of the composition over the
// machine's links, beside layers' times that are modelled (examples/plan/processors.hpp). The
// predicted seconds of an update beside the printed ones, images a second of a processor (printed,
// and modelled without exchange), and what is known of the difference where it is over 15 %.
// Buckets of 16 MiB or one, whichever is faster.
//
//   recipes_simulated             all
//   recipes_simulated Goyal       one
#include <cmath>
#include <cstdio>
#include <string_view>

#include "examples/plan/networks.hpp"
#include "examples/plan/processors.hpp"
#include "recipes.hpp"

namespace {

using namespace recipes;

/// A run's machine: links from public descriptions of the systems, as far as they are known to us.
struct site {
  std::string_view authors, processor;
  plan::efficiency efficiency;
  machine links;
  std::string_view reason;  // why the prediction is further off than 15 %
};

/// `per_node` processors with links of `inside` bytes a second, and `out` bytes a second a node.
constexpr fat_tree nodes_of(int per_node, double inside, double out) {
  return {.gpu = {1e-6, inside},
          .node = {1e-6, out},
          .rack = {0.5e-6, 16 * out},
          .gpus_per_node = per_node,
          .nodes_per_rack = 16};
}

// What processors without matrix units reach of their peak, fitted to He's 29 hours.
constexpr plan::efficiency usual{}, without_matrix_units{.flops = 0.326};
const site sites[]{
    {"He", "p100", without_matrix_units, nodes_of(8, 20e9, 6e9), "fitted"},
    {"Goyal", "p100", without_matrix_units, nodes_of(8, 20e9, 6.25e9), ""},
    {"You", "knl", without_matrix_units, nodes_of(1, 12.5e9, 12.5e9),
     "0.05 s exposed leave 0.29 s for computation: 55 images/s a KNL; what slows it is not known"},
    {"Akiba", "p100", without_matrix_units, nodes_of(8, 16e9, 13.6e9), ""},
    {"Jia", "p40", without_matrix_units, nodes_of(8, 12e9, 12.5e9), ""},
    {"Ying", "tpu_v3", usual, torus{{1e-6, 70e9}, {32, 32, 1}},
     "0.006 s of the printed are not updates: 1.05 million images/s are 0.031 s; the rest: not "
     "known"},
    {"Mikami", "v100", usual, nodes_of(4, 50e9, 25e9),
     "a third of Yamazaki's images/s on such a V100; small kernels explain 0.002 s; not known"},
    {"Yamazaki", "v100", usual, nodes_of(4, 50e9, 25e9),
     "0.003 s of the printed are not updates: 1.73 million images/s are 0.047 s; the rest: not "
     "known"},
};

template <class Recipe>
void simulate(const Recipe& recipe, const site& s) {
  const published& f = recipe.figures;
  const auto* gpu = plan::processors.begin();
  while (gpu->name != s.processor) ++gpu;
  const std::vector<plan::layer> layers = plan::layers_of<resnet<50, fp32, cpu>>(true);
  const int width = sizeof(typename Recipe::precision::storage);
  const step_profile step =
      plan::estimate_step(*gpu, s.efficiency, layers, static_cast<int>(f.per_processor()), width);
  simulated_steps result;
  for (const std::size_t bucket_bytes : {std::size_t{16} << 20, std::size_t{128} << 20}) {
    const simulated_steps r = simulate_steps(
        static_cast<int>(f.processors), step, [&](auto comm) { return recipe.reducer(comm); },
        {.contended = s.links}, {.bucket_bytes = bucket_bytes});
    if (result.seconds == 0 || r.seconds < result.seconds) result = r;
  }
  const double printed = f.seconds_a_step > 0
                             ? f.seconds_a_step
                             : f.minutes * 60 / static_cast<double>(f.counted_steps());
  const double off = result.seconds / printed - 1;
  std::printf("%-9s %5lld %-7s %8.4f %8.4f %8.4f %+6.1f %%  %7.2f %7.1f %8.0f %8.0f  %s\n",
              std::string(f.authors).c_str(), static_cast<long long>(f.processors),
              std::string(s.processor).c_str(), result.seconds, result.exposed, printed, 100 * off,
              result.seconds * static_cast<double>(f.counted_steps()) / 60, f.minutes,
              static_cast<double>(f.per_processor()) / printed,
              static_cast<double>(f.per_processor()) / step.total(),
              std::abs(off) <= 0.15 ? s.reason == "fitted" ? "(fitted)" : ""
                                    : std::string(s.reason).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view only = argc > 1 ? argv[1] : "";
  bool found = false;
  std::printf("%-9s %5s %-7s %8s %8s %8s %8s  %7s %7s %8s %8s\n", "run", "ranks", "of", "step",
              "exposed", "printed", "off", "minutes", "printed", "images/s", "modelled");
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
