// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The table of published runs: updates, batch of a processor and total time, counted from the
// composition and beside what was printed (static_asserts in recipes.hpp); and each as its types
// describe themselves, composed for this machine with one rank.
#include <cstdio>
#include <string>

#include <cordee/core/decimal.hpp>

#include "recipes.hpp"

int main() {
  using namespace recipes;
  std::printf("%-9s %7s %10s %6s %13s %6s %7s %9s  %s\n", "run", "batch", "processors", "each",
              "updates", "s each", "minutes", "(printed)", "source");
  for_each_recipe([](auto recipe) {
    const published& f = recipe.figures;
    std::printf(
        "%-9s %7lld %10lld %6lld %13lld %6s %7s %9s  %s\n", std::string(f.authors).c_str(),
        static_cast<long long>(f.batch), static_cast<long long>(f.processors),
        static_cast<long long>(f.per_processor()), static_cast<long long>(f.counted_steps()),
        decimal::fixed(f.seconds_a_step, 3).c_str(), decimal::fixed(f.counted_minutes(), 2).c_str(),
        decimal::fixed(f.minutes, 1).c_str(), std::string(f.source).c_str());
  });
  for_each_recipe([](auto recipe) {
    std::printf("\n%s: %s\n  %s\n  %s\n  %s\n", std::string(recipe.figures.authors).c_str(),
                std::string(decltype(recipe)::precision::name).c_str(),
                recipe.optimizer().describe().c_str(), recipe.schedule().describe().c_str(),
                recipe.reducer(self_comm{}).describe().c_str());
  });
  std::printf(
      "\nNot included, for their networks are not: You's AlexNet at 8,192 (arXiv 1708.03888), and "
      "in "
      "11 minutes on 1,024 CPUs (arXiv 1709.05011). Smith's growing batch (arXiv 1711.00489): "
      "loader_options::batch_schedule has it.\n");
}
