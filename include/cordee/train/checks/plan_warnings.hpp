// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is likely a mistake in a run that is about to start: a sentence each, with the numbers and
// the remedy. `fit` gives them to its callbacks (run_plan::warnings), `describe` lists them.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/checks/stability_check.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

#if defined(__OPTIMIZE__)
inline constexpr bool is_optimized = true;
#else
inline constexpr bool is_optimized = false;
#endif

/// Whether the processor has registers of 32 bytes or more, which a build for it would use.
inline bool processor_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

// Templates throughout, so that programs without callbacks do not compile this code.

/// Warnings about the build of a program whose kernels run on this processor.
auto build_warnings(bool optimized, std::integral auto register_bytes, bool avx2) {
  std::vector<std::string> out;
  if (!optimized)
    out.push_back(
        "compiled without optimization, which takes about fifty times as long; configure with "
        "-D CMAKE_BUILD_TYPE=Release, or compile with -O2");
  if (register_bytes < 32 && avx2)
    out.push_back(concat("compiled for vectors of ", register_bytes,
                         " bytes on a processor with AVX2, where wider ones are faster (in "
                         "convolutions three to six times); compile with -march=native"));
  return out;
}

/// A warning about the learning rates at the given epochs of a run, in order; empty if there is
/// none.
std::string schedule_warning(const auto& epochs, const auto& learning_rates, double run_epochs) {
  std::size_t moving = learning_rates.size();  // the last update that changes a weight, plus 1
  while (moving > 0 && learning_rates[moving - 1] == 0) --moving;
  if (moving == learning_rates.size()) return {};
  if (moving == 0)
    return concat("the learning rate is 0 at all updates of the ", run_epochs,
                  " epochs: no weight changes. A warm-up must be shorter than its schedule");
  return concat("the learning rate is 0 from epoch ", epochs[moving], " on, and the run has ",
                run_epochs, ": give the schedule as many epochs as the run");
}

/// At most `most` updates from `first` to `total`, evenly, with the first and the last.
auto sample_updates(std::int64_t first, std::int64_t total, std::integral auto most) {
  const std::int64_t steps = total - first, n = std::min<std::int64_t>(steps, most);
  const std::int64_t gaps = std::max<std::int64_t>(n - 1, 1);
  std::vector<std::int64_t> out(n > 0 ? static_cast<std::size_t>(n) : 0);
  for (std::int64_t k = 0; k < n; ++k)
    out[static_cast<std::size_t>(k)] =
        first + k * ((steps - 1) / gaps) + k * ((steps - 1) % gaps) / gaps;
  return out;
}

/// Not collective. An adaptive schedule's learning rates are not known before the run.
template <class Run, class F>
[[gnu::cold]] std::vector<std::string> plan_warnings(Run& run, F& feed, double epochs) {
  using S = std::remove_cvref_t<decltype(run.schedule())>;
  std::vector<std::string> out;
  if constexpr (Run::device::host_memory)
    out = build_warnings(is_optimized, ops::register_bytes, processor_has_avx2());
  if constexpr (!schedule::AdaptiveSchedule<S>) {
    std::vector<double> at, learning_rates;
    for (const std::int64_t k : sample_updates(feed.step(), feed.steps(epochs), 1000)) {
      at.push_back(feed.epoch(k));
      learning_rates.push_back(run.schedule()(at.back()));
    }
    if (auto text = schedule_warning(at, learning_rates, epochs); !text.empty())
      out.push_back(std::move(text));
  }
  if (feed.step() > 0 && feed.step() >= feed.steps(epochs))
    out.push_back(concat("the loader has read ", feed.epoch(feed.step()),
                         " epochs, so that this fit takes no step: its number of epochs counts "
                         "from the beginning of the run"));
  const double radius = disagreement_radius(run.optimizer(), run.reducer());
  if (radius > warning_radius) out.push_back(describe_radius(radius));
  return out;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
