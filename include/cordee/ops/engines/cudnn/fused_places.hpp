// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where batch norm is fused into convolutions. A place is a graph (fused_graphs.hpp) of one
// convolution and batch; it runs fused, by a plan of cuDNN, or plain, by the passes that the graph
// replaces. It is decided when it first runs, and then for all layers of this shape:
//
//   no plan         plain: cuDNN has no engine for the graph on this GPU (9.19: in bf16, none)
//   in the table    as it says (use_table), with the plan that it names
//   deterministic   fused, but plain for weight gradients, the slower ones on an H200 (2026-11-26)
//   otherwise       both forms are timed on the tensors given; fused unless plain is faster
//
// Timing blocks the host, so it cannot happen during a graph capture: run a step before capturing
// one. The table is text, a line for each place: graph, problem, samples, type, "plain" or "fused"
// and the plan's number in the order of the heuristics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/engines/cudnn/fused_pass.hpp>
#include <cordee/ops/engines/cudnn/plan_cache.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The places of a GPU. All threads share them.
class cudnn_fused_places {
 public:
  using addresses = cudnn_fused_pass::addresses;

  /// Those of the calling thread's current device, destroyed when the program ends.
  static cudnn_fused_places& current() {
    int ordinal = 0;
    device::cuda_check(cudaGetDevice(&ordinal), "cudaGetDevice");
    (void)cudnn_plan_cache::current();  // whose handle is destroyed after the plans
    static std::mutex mutex;
    static std::map<int, cudnn_fused_places> places;
    const std::scoped_lock lock(mutex);
    return places[ordinal];
  }

  /// Runs the place fused on these tensors, behind prepare(), if that is its choice, and returns
  /// whether it did. When it is first asked for, both forms may be run several times to time them:
  /// plain() is to have no effect but on what the caller writes afterwards.
  template <device::CudaStream S, class Prepare, class Plain>
  bool run(const cudnn_place& at, const addresses& data, S s, const Prepare& prepare,
           const Plain& plain) {
    const std::scoped_lock lock(mutex_);
    try {
      std::optional<decided>& place = places_[as_tuple(at)];
      if (!place) place = decide(at, data, s, prepare, plain);
      if (!place->pass) return false;
      prepare();
      cudnn_plan_cache::current().with_handle(
          s, [&](cudnnHandle_t handle) { place->pass->execute(handle, data, s); });
      return true;
    } catch (const error& e) {
      throw error(concat(e.what(), " (", describe(at), ")"));
    }
  }
  /// Whether the place has been decided, and is plain.
  [[nodiscard]] bool is_plain(const cudnn_place& at) const {
    const std::scoped_lock lock(mutex_);
    const auto found = places_.find(as_tuple(at));
    return found != places_.end() && found->second && !found->second->pass;
  }
  /// A layer that did not ask, for this reason.
  void note(not_fused why) { reasons_ |= 1U << static_cast<unsigned>(why); }
  /// A pool in one pass with the batch norm before it.
  void note(fused_pool kind) { pools_ |= 1U << static_cast<unsigned>(kind); }

  /// The choices so far, and those of the table that were not asked for, as a table.
  [[nodiscard]] std::string table() const {
    const std::scoped_lock lock(mutex_);
    std::map<std::string, std::string, std::less<>> lines(table_);
    for (const auto& [key, place] : places_)
      if (place && place->why != reason::no_plan) lines[place->name] = choice_of(*place);
    std::string out;
    for (const auto& [name, choice] : lines) out += concat(name, " ", choice, "\n");
    return out;
  }
  /// From now on places are as these lines say. Throws usage_error for a line without meaning, and
  /// if a place has been decided otherwise.
  void use_table(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    std::map<std::string, std::string, std::less<>> table;
    for (std::size_t line = 1; !text.empty(); ++line) {
      const std::string_view words = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(words.size() + 1, text.size()));
      if (words.empty()) continue;
      const auto [name, choice] = split(words);
      if (name.empty())
        throw usage_error(
            concat("cudnn: line ", line, " of a table of fused places is \"", words,
                   "\", which does not end in \"plain\" or \"fused\" and a plan's number: use "
                   "what choices() returned"));
      table.insert_or_assign(std::string(name), std::string(choice));
    }
    for (const auto& [key, place] : places_)
      if (const auto found = place ? table.find(place->name) : table.end(); found != table.end())
        if (place->why != reason::no_plan && choice_of(*place) != found->second)
          throw usage_error(
              concat("cudnn: a table of fused places comes after the first step, which decided \"",
                     place->name, "\" otherwise: use it before"));
    table_ = std::move(table);
  }
  /// "batch norm fused at 31 of 48 places: …".
  [[nodiscard]] std::string describe_places() const {
    const std::scoped_lock lock(mutex_);
    std::array<std::size_t, reasons> fused{}, plain{};
    std::size_t fused_places = 0, all = 0;
    for (const auto& [key, place] : places_) {
      if (!place) continue;
      const auto why = static_cast<std::size_t>(place->why);
      ++(place->pass ? fused : plain)[why];
      if (place->pass) ++fused_places;
      ++all;
    }
    std::string text =
        all == 0 ? concat("batch norm is fused where it is faster, decided at the first step",
                          table_.empty() ? "" : " and by a table")
                 : concat("batch norm fused at ", fused_places, " of ", all, " places");
    for (std::size_t why = 0; why < reasons; ++why) {
      if (fused[why] > 0) text += concat("; ", fused[why], " fused ", reason_names[why]);
      if (plain[why] > 0) text += concat("; ", plain[why], " plain ", reason_names[why]);
    }
    constexpr std::array<std::string_view, 2> pools{"max", "average"};
    for (unsigned kind = 0; kind < pools.size(); ++kind)
      if ((pools_ >> kind & 1U) != 0) text += concat("; with the ", pools[kind], " pool behind it");
    constexpr std::array<std::string_view, 6> words{
        "where statistics are frozen",
        "in ghost batches",
        "in recomputed or offloaded blocks",
        "in backward where ranks share statistics",
        "at the average pool behind a projection's block",
        "at an average pool of fewer than 6 or more than 64 pixels"};
    for (unsigned why = 0; why < words.size(); ++why)
      if ((reasons_ >> why & 1U) != 0) text += concat("; plain ", words[why]);
    return text;
  }
  /// Forgets all choices and the table: for tests.
  void clear() {
    const std::scoped_lock lock(mutex_);
    places_.clear();
    table_.clear();
    reasons_ = pools_ = 0;
  }

 private:
  static constexpr std::size_t candidates = 4;  // the heuristics' first ones were the fastest
  static constexpr int measurements = 2, runs = 3;
  static constexpr std::size_t reasons = 4;
  enum class reason { by_time, by_table, by_rule, no_plan };
  static constexpr std::array<std::string_view, reasons> reason_names{
      "by time", "by the table", "by rule, in a deterministic build",
      "since cuDNN has no plan for it on this GPU"};

  struct decided {
    std::string name;
    reason why{};
    std::size_t plan = 0;  // in the order of the heuristics
    std::optional<cudnn_fused_pass> pass;
  };

  using tuple = std::pair<std::array<int, 8>, std::array<int, 5>>;
  static tuple as_tuple(const cudnn_place& at) {
    return {as_array(at.p),
            {static_cast<int>(at.kind), at.samples, static_cast<int>(at.type),
             at.settings.deterministic, at.settings.tf32}};
  }
  static std::string choice_of(const decided& place) {
    return place.pass ? concat("fused ", place.plan) : "plain";
  }
  /// A line's place and choice; nothing if it has no choice.
  static std::pair<std::string_view, std::string_view> split(std::string_view words) {
    constexpr std::string_view plain = " plain", fused = " fused ";
    if (words.ends_with(plain)) return {words.substr(0, words.size() - plain.size()), "plain"};
    const std::size_t at = words.rfind(fused);
    if (at == std::string_view::npos || at + fused.size() == words.size()) return {};
    const std::string_view digits = words.substr(at + fused.size());
    if (digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string_view::npos)
      return {};
    return {words.substr(0, at), words.substr(at + 1)};
  }

  template <device::CudaStream S, class Prepare, class Plain>
  decided decide(const cudnn_place& at, const addresses& data, S s, const Prepare& prepare,
                 const Plain& plain) {
    decided out{describe(at), reason::no_plan, 0, {}};
    const auto row = table_.find(out.name);
    const bool by_table = row != table_.end(), by_rule = !by_table && at.settings.deterministic;
    if (by_table && row->second == "plain") {
      out.why = reason::by_table;
      return out;
    }
    if (by_table) {
      const std::string_view digits = std::string_view(row->second).substr(6);
      std::from_chars(digits.data(), digits.data() + digits.size(), out.plan);
    }
    auto passes = plans_of(at, s, by_table ? out.plan + 1 : by_rule ? 1 : candidates);
    if (by_table && passes.size() <= out.plan)
      throw error(concat("cudnn: the table of fused places names plan ", out.plan,
                         ", and cuDNN has ", passes.size(),
                         " here: the table is of another GPU or version of cuDNN; "
                         "measure again without it"));
    if (passes.empty()) return out;
    out.why = by_table ? reason::by_table : by_rule ? reason::by_rule : reason::by_time;
    if (by_rule && at.kind == fused_graph::bn_relu_wgrad) return out;
    if (out.why == reason::by_time) {
      cuda_stopwatch stopwatch(s.handle);
      std::vector<float> times;
      prepare();
      for (cudnn_fused_pass& pass : passes)
        times.push_back(least_time(stopwatch, [&] {
          cudnn_plan_cache::current().with_handle(
              s, [&](cudnnHandle_t handle) { pass.execute(handle, data, s); });
        }));
      const auto least = std::ranges::min_element(times);
      if (least_time(stopwatch, plain) < *least) return out;
      out.plan = static_cast<std::size_t>(least - times.begin());
    }
    out.pass.emplace(std::move(passes[out.plan]));
    return out;
  }
  /// Milliseconds; infinite if the execution fails, mostly for lack of memory.
  template <class F>
  static float least_time(cuda_stopwatch& stopwatch, const F& f) {
    float least = std::numeric_limits<float>::infinity();
    try {
      for (int i = 0; i < measurements; ++i) least = std::min(least, stopwatch(runs, f));
    } catch (const error&) {
      return std::numeric_limits<float>::infinity();
    }
    return least;
  }
  template <device::CudaStream S>
  static std::vector<cudnn_fused_pass> plans_of(const cudnn_place& at, S s, std::size_t most) {
    return cudnn_plan_cache::current().with_handle(s, [&](cudnnHandle_t handle) {
      std::vector<cudnn_fused_pass> out;
      const cudnn_target target{handle, nullptr};
      const cudnn_plan_key key{at.p,    at.samples, convolution_pass::fprop,
                               at.type, false,      at.settings};
      try {
        const auto graph =
            std::make_shared<const cudnn_fused_graph>(at.kind, at.p, at.samples, at.type, target);
        for (cudnn_fused_plan& plan : cudnn_fused_plans(
                 *graph, target, most,
                 [&](const cudnn_descriptor& config) { return is_admissible(config, key); }))
          out.emplace_back(graph, std::move(plan));
      } catch (const error&) {  // cuDNN rejects the graph: no plan
        out.clear();
      }
      return out;
    });
  }

  mutable std::recursive_mutex mutex_;  // a plain form may have places of its own
  std::map<tuple, std::optional<decided>> places_;
  std::map<std::string, std::string, std::less<>> table_;  // choices by place
  std::atomic<unsigned> reasons_ = 0, pools_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
