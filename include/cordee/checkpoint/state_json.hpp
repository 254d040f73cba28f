// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's state, and what a run must share with it to go on, as JSON.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <cxxabi.h>
#include <nlohmann/json.hpp>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/version.hpp>
#include <cordee/train/run_state.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// JSON has no NaN and no infinity: they are strings. Other numbers keep every bit.
inline nlohmann::json to_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
inline double to_double(const nlohmann::json& j) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!j.is_string()) return j.get<double>();
  return j == "inf" ? infinity : j == "-inf" ? -infinity : std::nan("");
}

/// One rank's state but the reducer's numbers, which are a tensor.
inline nlohmann::json to_json(const run_state& s) {
  nlohmann::json schedule = nlohmann::json::array();
  for (const double x : s.schedule) schedule.push_back(to_json(x));
  return {{"step", s.progress.step},
          {"applied", s.progress.applied},
          {"round", s.progress.round},
          {"epoch", to_json(s.progress.epoch)},
          {"previous_learning_rate", to_json(s.progress.previous_learning_rate)},
          {"nonfinite_steps", s.progress.nonfinite_steps},
          {"loss_scale", to_json(static_cast<double>(s.scale.value))},
          {"finite_steps", s.scale.finite_steps},
          {"update", s.fit.update},
          {"samples", s.fit.samples},
          {"global_batch", s.fit.global_batch},
          {"loader_seed", s.fit.seed},
          {"epochs_per_update", s.fit.epochs_per_update},
          {"skipped", s.fit.skipped},
          {"in_epoch",
           {{"loss", to_json(s.fit.in_epoch.loss)},
            {"top1", s.fit.in_epoch.top1},
            {"top5", s.fit.in_epoch.top5},
            {"count", s.fit.in_epoch.count}}},
          {"schedule", std::move(schedule)},
          {"reducer", s.reducer.counters}};
}

/// The inverse. Throws a std::exception where a member is missing or of another type.
inline run_state to_run_state(const nlohmann::json& j) {
  run_state s;
  j.at("step").get_to(s.progress.step);
  j.at("applied").get_to(s.progress.applied);
  j.at("round").get_to(s.progress.round);
  s.progress.epoch = to_double(j.at("epoch"));
  s.progress.previous_learning_rate = to_double(j.at("previous_learning_rate"));
  j.at("nonfinite_steps").get_to(s.progress.nonfinite_steps);
  s.scale.value = static_cast<float>(to_double(j.at("loss_scale")));
  j.at("finite_steps").get_to(s.scale.finite_steps);
  j.at("update").get_to(s.fit.update);
  j.at("samples").get_to(s.fit.samples);
  j.at("global_batch").get_to(s.fit.global_batch);
  j.at("loader_seed").get_to(s.fit.seed);
  j.at("epochs_per_update").get_to(s.fit.epochs_per_update);
  j.at("skipped").get_to(s.fit.skipped);
  const nlohmann::json& in_epoch = j.at("in_epoch");
  s.fit.in_epoch.loss = to_double(in_epoch.at("loss"));
  in_epoch.at("top1").get_to(s.fit.in_epoch.top1);
  in_epoch.at("top5").get_to(s.fit.in_epoch.top5);
  in_epoch.at("count").get_to(s.fit.in_epoch.count);
  for (const nlohmann::json& x : j.at("schedule")) s.schedule.push_back(to_double(x));
  j.at("reducer").get_to(s.reducer.counters);
  return s;
}

/// The version of the folder's layout and of both JSON texts; a newer one is refused.
inline constexpr int format = 1;

inline std::string demangled(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : type.name();
}

/// A type's name as C++ writes it, without the library's namespace, which differs between builds.
template <class T>
std::string type_name() {
  std::string library = demangled(typeid(segment));
  library.resize(library.rfind("segment"));  // "cordee::v0_...::"
  std::string name = demangled(typeid(T));
  for (std::size_t at; !library.empty() && (at = name.find(library)) != std::string::npos;)
    name.erase(at, library.size());
  return name;
}

/// The options of a trainer that may change numbers.
inline nlohmann::json describe_options(const trainer_options& o) {
  return {{"check_finite", o.check_finite},
          {"max_nonfinite_steps", o.max_nonfinite_steps},
          {"synchronize_batch_norm", o.synchronize_batch_norm},
          {"loss_scaling.initial", o.loss_scaling.initial},
          {"loss_scaling.growth", o.loss_scaling.growth},
          {"loss_scaling.backoff", o.loss_scaling.backoff},
          {"loss_scaling.interval", o.loss_scaling.interval}};
}

/// What a run must share with a checkpoint to go on, for the most part, what it should, and where it
/// was made.
template <class Run>
nlohmann::json describe_run(Run& run) {
  return {{"format", format},
          {"cordee", std::string(version)},
          {"step", run.steps_taken()},
          {"ranks", run.comm().size()},
          {"precision", std::string(Run::precision::name)},
          {"device", std::string(Run::device::name)},
          {"optimizer_type", type_name<std::remove_cvref_t<decltype(run.optimizer())>>()},
          {"optimizer", core::describe_policy(run.optimizer())},
          {"reducer", core::describe_policy(run.reducer())},
          {"schedule", core::describe_policy(run.schedule())},
          {"options", describe_options(run.options())},
          {"weights_differ", Run::weights_differ},
          {"network", concat(core::fingerprint(run.segments()))},
          {"seed", run.options().seed}};
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
