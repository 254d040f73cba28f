// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which reducer and which buckets make a step shortest, by simulating each.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/comm/simulated/step.hpp>
#include <cordee/cordee.hpp>

#include "memory.hpp"

namespace plan {

using namespace cordee;

struct prediction {
  int ranks = 1;
  std::string reducer = "none";
  std::size_t bucket_bytes = 0;
  simulated_steps step{};
};

/// How gradients travel, in each step, or differences of weights, in each `period`-th one
/// (outer_momentum over local_steps): as they are, in 16 or 8 bits, in rank `rank` by power_sgd, as
/// signs by gathered or by majority_vote. What these compute is not counted.
enum class wire_code { fp32, fp16, int8, rank, sign, vote };
struct wire_format {
  wire_code code = wire_code::fp32;
  int rank = 0;
  int period = 1;
};

/// "fp32", "fp16", "int8", "sign", "vote", or "rank" and a number.
inline wire_format wire_of(const std::string& name, int period) {
  wire_format w{.period = period};
  if (period > 1 && name == "vote")
    throw error("--wire: vote leaves signs, which differences of weights (--local-steps) are not");
  constexpr std::array<std::pair<const char*, wire_code>, 5> codes{{{"fp32", wire_code::fp32},
                                                                    {"fp16", wire_code::fp16},
                                                                    {"int8", wire_code::int8},
                                                                    {"sign", wire_code::sign},
                                                                    {"vote", wire_code::vote}}};
  for (const auto& [text, code] : codes) {
    w.code = code;
    if (name == text) return w;
  }
  w.code = wire_code::rank;
  const char* const end = name.data() + name.size();
  if (!name.starts_with("rank") ||
      std::from_chars(name.data() + 4, end, w.rank) != std::from_chars_result{end, std::errc{}} ||
      w.rank < 1)
    throw error(concat("--wire: \"", name,
                       "\" is none of fp32, fp16, int8, sign, vote, rank1, rank2, ..."));
  return w;
}

/// The reducer's own planes, such as the residual of error feedback, and outer_momentum's two.
inline slot_counts slots_of(const wire_format& wire) {
  const int reducer = wire.code == wire_code::fp32 ? 0 : wire.code == wire_code::rank ? 2 : 1;
  return {.optimizer = wire.period > 1 && reducer > 0 ? 3 : 1,
          .reducer = reducer,
          .moves_update = reducer == 0 && wire.period == 1};
}

/// Calls f(name, messages that a rank sends one after another, make) for each reducer.
template <class F>
void for_each_reducer(int ranks, int ranks_per_node, const wire_format& wire, const F& f) {
  const double log = std::ceil(std::log2(std::max(1, ranks)));
  if (wire.code == wire_code::sign)
    return f("signs, gathered", 1, [](auto comm) { return gathered{comm, scaled_sign{}}; });
  if (wire.code == wire_code::vote)
    return f("majority vote", 2, [](auto comm) { return majority_vote{comm}; });
  const auto both = [&](const char* name, double messages, const auto& make) {
    if (wire.code == wire_code::rank)
      f(concat(name, ", rank ", wire.rank), 2 * messages, [&](auto comm) {
        return power_sgd{make(comm), {.rank = wire.rank}};
      });
    else if (wire.code == wire_code::fp16)
      f(concat(name, ", 16 bits"), messages, [&](auto comm) {
        return compressed{make(comm), fp16{}};
      });
    else if (wire.code == wire_code::int8)
      f(concat(name, ", 8 bits"), messages, [&](auto comm) {
        return compressed{make(comm), int8{}};
      });
    else
      f(std::string(name), messages, make);
  };
  both("halving-doubling", 2 * std::floor(log), [](auto comm) { return halving_doubling{comm}; });
  both("butterfly", std::floor(log), [](auto comm) { return butterfly{comm}; });
  both("torus", 4 * (std::sqrt(ranks) - 1), [](auto comm) { return torus_ring{comm}; });
  if (ranks_per_node > 1 && ranks > ranks_per_node && ranks % ranks_per_node == 0)
    both("hierarchical", 2.0 * (ranks / ranks_per_node - 1), [=](auto comm) {
      return hierarchical{comm, nodes{ranks_per_node}};
    });
  both("ring", 2.0 * (ranks - 1), [](auto comm) { return ring{comm}; });
}

/// The latency that no message is without.
inline double least_latency(const machine& m) {
  return std::visit(
      [](const auto& t) {
        if constexpr (requires { t.gpu; })
          return 2 * t.gpu.latency;
        else
          return t.link.latency;
      },
      m);
}
inline int ranks_per_node_of(const machine& m) {
  const auto* const tree = std::get_if<fat_tree>(&m);
  return tree != nullptr ? tree->gpus_per_node : 1;
}

/// The machine, with links that are better.
inline machine changed(machine m, double latency, double bandwidth) {
  const auto change = [&](link_parameters& l) {
    l.latency *= latency;
    l.bandwidth *= bandwidth;
  };
  std::visit(
      [&](auto& t) {
        if constexpr (requires { t.node; }) {
          change(t.gpu), change(t.node), change(t.rack);
        } else if constexpr (requires { t.local; }) {
          change(t.gpu), change(t.local), change(t.global);
        } else {
          change(t.link);
        }
      },
      m);
  return m;
}

/// The best of all reducers and of buckets of 1, 4, 16 and 64 MiB and the whole. What its latencies
/// alone would make longer than the best so far is not simulated, and nothing is when the best is
/// within 1 % of computation.
inline prediction best_prediction(int ranks, const step_profile& step, const machine& m,
                                  const wire_format& wire) {
  prediction best{.ranks = ranks};
  best.step.seconds = std::max(step.total(), step.loader);
  if (ranks == 1) return best;
  const double computed = best.step.seconds;
  best.step.seconds = std::numeric_limits<double>::infinity();
  const segment& last = step.table.back();
  const std::size_t whole = detail::core::align_up(last.end()) * sizeof(float);
  std::vector<std::size_t> sizes;
  for (const auto mib : std::array<std::size_t, 4>{1, 4, 16, 64})
    if ((mib << 20) < whole) sizes.push_back(mib << 20);
  sizes.push_back(whole);
  for_each_reducer(ranks, ranks_per_node_of(m), wire,
                   [&](const std::string& name, double messages, const auto& make) {
                     for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
                       const double count = std::max(1.0, static_cast<double>(whole / *size));
                       if (best.step.seconds < 1.01 * computed) return;
                       const double latencies = count * messages * least_latency(m) / wire.period;
                       if (std::max(computed, step.forward + latencies) > best.step.seconds)
                         continue;
                       const simulated_steps s = simulate_steps(
                           ranks, step, make, {.contended = m},
                           {.steps = wire.period, .period = wire.period, .bucket_bytes = *size});
                       if (s.seconds < best.step.seconds) best = {ranks, name, *size, s};
                     }
                   });
  best.step.seconds = std::max(best.step.seconds, step.loader);
  return best;
}

}  // namespace plan
