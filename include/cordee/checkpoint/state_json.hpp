// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's state, and what a run must share with it to continue, as JSON.
#pragma once

#include <algorithm>
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
#include <cordee/train/step/run_state.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// JSON has no NaN and no infinity: they are strings. Other numbers keep every bit.
inline nlohmann::json to_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
/// For messages: a list or an object may be nested deeper than the stack.
inline std::string describe_value(const nlohmann::json& j) {
  return j.is_structured() ? std::string("an ") + j.type_name() : j.dump();
}
/// Throws a std::exception for what to_json does not make.
inline double to_double(const nlohmann::json& j) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!j.is_string()) return j.get<double>();
  if (j != "inf" && j != "-inf" && j != "nan")
    throw error(concat("a state has ", describe_value(j), " where a number is expected"));
  return j == "inf" ? infinity : j == "-inf" ? -infinity : std::nan("");
}

/// An integer, not a fraction, which nlohmann-json would convert. Throws a std::exception for
/// others.
template <class Integer>
Integer to_integer(const nlohmann::json& j) {
  if (!j.is_number_integer())
    throw error(concat("a state has ", describe_value(j), " where an integer is expected"));
  return j.get<Integer>();
}

/// The member of that name, a count from 0 to 2^53 or to half of the type's numbers, so that it
/// does not overflow when the run continues. Throws a std::exception if it is missing or something
/// else.
template <class Integer>
Integer count_at(const nlohmann::json& j, const char* name) {
  constexpr auto most =
      std::min<std::int64_t>(std::int64_t{1} << 53, std::numeric_limits<Integer>::max() / 2);
  const nlohmann::json& n = j.at(name);
  const auto value = to_integer<std::int64_t>(n);  // of 2^63 and more: negative
  if (value < 0 || value > most)
    throw error(
        concat("\"", name, "\" is ", n.dump(), ", a count from 0 to ", most, " is expected"));
  return static_cast<Integer>(value);
}
inline void read_count(const nlohmann::json& j, const char* name, auto& out) {
  out = count_at<std::remove_cvref_t<decltype(out)>>(j, name);
}

/// As read_count; null: the model does not count them.
inline void read_right_predictions(const nlohmann::json& j, const char* name, std::int64_t& out) {
  out = -1;
  if (!j.at(name).is_null()) read_count(j, name, out);
}
inline nlohmann::json right_predictions(std::int64_t count) {
  return count < 0 ? nlohmann::json() : nlohmann::json(count);
}

/// One rank's state but the numbers that are tensors (snapshot.hpp).
inline nlohmann::json to_json(const train::run_state& s) {
  nlohmann::json schedule = nlohmann::json::array();
  for (const double x : s.schedule) schedule.push_back(to_json(x));
  nlohmann::json data{{"classes", train::to_vector(s.fit.data.class_names)}};
  if (s.fit.data.has_normalization) {
    data["mean"] = s.fit.data.normalization.mean;
    data["scale"] = s.fit.data.normalization.scale;
  }
  nlohmann::json noise = nlohmann::json::array();
  for (const double x : s.fit.noise.averages) noise.push_back(to_json(x));
  return {{"step", s.progress.step},
          {"applied", s.progress.applied},
          {"round", s.progress.round},
          {"epoch", to_json(s.progress.epoch)},
          {"previous_learning_rate", to_json(s.progress.previous_learning_rate)},
          {"nonfinite_steps", s.progress.nonfinite_steps},
          {"nonfinite_in_window", s.progress.nonfinite_in_window},
          {"zero_gradients", s.progress.zero_gradients},
          {"loss_scale", to_json(static_cast<double>(s.scale.value))},
          {"finite_steps", s.scale.finite_steps},
          {"update", s.fit.update},
          {"samples", s.fit.samples},
          {"global_batch", s.fit.global_batch},
          {"loader_seed", s.fit.seed},
          {"epochs_per_update", s.fit.epochs_per_update},
          {"epochs", to_json(s.fit.epochs)},
          {"skipped", s.fit.skipped},
          {"in_epoch",
           {{"loss", to_json(s.fit.in_epoch.loss)},
            {"top1", right_predictions(s.fit.in_epoch.top1)},
            {"top5", right_predictions(s.fit.in_epoch.top5)},
            {"count", s.fit.in_epoch.count}}},
          {"schedule", std::move(schedule)},
          {"noise", std::move(noise)},
          {"data", std::move(data)},
          {"reducer", s.reducer.counters}};
}

/// The inverse. Throws a std::exception where a member is missing, of another type, or not what a
/// run can have.
inline train::run_state to_run_state(const nlohmann::json& j) {
  train::run_state s;
  read_count(j, "step", s.progress.step);
  read_count(j, "applied", s.progress.applied);
  read_count(j, "round", s.progress.round);
  s.progress.epoch = to_double(j.at("epoch"));
  s.progress.previous_learning_rate = to_double(j.at("previous_learning_rate"));
  read_count(j, "nonfinite_steps", s.progress.nonfinite_steps);
  if (j.contains("zero_gradients")) {  // else of an older version
    read_count(j, "nonfinite_in_window", s.progress.nonfinite_in_window);
    read_count(j, "zero_gradients", s.progress.zero_gradients);
  }
  const double scale = to_double(j.at("loss_scale"));
  if (!(scale > 0 && scale <= static_cast<double>(std::numeric_limits<float>::max())))
    throw error(concat("\"loss_scale\" is ", scale, ", a positive float is expected"));
  s.scale.value = static_cast<float>(scale);
  read_count(j, "finite_steps", s.scale.finite_steps);
  read_count(j, "update", s.fit.update);
  read_count(j, "samples", s.fit.samples);
  read_count(j, "global_batch", s.fit.global_batch);
  // As loaders count: 64 bits have the number of the samples of all updates.
  if (s.fit.samples > 0 &&
      (s.fit.global_batch == 0 ||
       s.fit.update > std::numeric_limits<std::int64_t>::max() / s.fit.global_batch - 2))
    throw error(concat("\"update\" is ", s.fit.update, " of a global batch of ", s.fit.global_batch,
                       ", which no loader can have"));
  s.fit.seed = to_integer<std::uint64_t>(j.at("loader_seed"));
  s.fit.epochs_per_update = to_double(j.at("epochs_per_update"));
  s.fit.epochs = to_double(j.at("epochs"));
  read_count(j, "skipped", s.fit.skipped);
  const nlohmann::json& in_epoch = j.at("in_epoch");
  s.fit.in_epoch.loss = to_double(in_epoch.at("loss"));
  read_right_predictions(in_epoch, "top1", s.fit.in_epoch.top1);
  read_right_predictions(in_epoch, "top5", s.fit.in_epoch.top5);
  read_count(in_epoch, "count", s.fit.in_epoch.count);
  for (const nlohmann::json& x : j.at("schedule")) s.schedule.push_back(to_double(x));
  for (std::size_t k = 0; k < s.fit.noise.averages.size(); ++k)
    s.fit.noise.averages[k] = to_double(j.at("noise").at(k));
  if (j.contains("data")) {  // else of an older version
    const nlohmann::json& data = j.at("data");
    for (const auto& name : data.at("classes").get<std::vector<std::string>>())
      s.fit.data.class_names.add(name);
    s.fit.data.has_normalization = data.contains("mean");
    if (s.fit.data.has_normalization) {
      data.at("mean").get_to(s.fit.data.normalization.mean);
      data.at("scale").get_to(s.fit.data.normalization.scale);
    }
  }
  for (const nlohmann::json& x : j.at("reducer"))
    s.reducer.counters.push_back(to_integer<std::int64_t>(x));
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
          {"max_nonfinite_share", o.max_nonfinite_share},
          {"batch_norm_over", o.batch_norm_over},
          {"freeze", o.freeze.describe()},
          {"loss_scaling.initial", o.loss_scaling.initial},
          {"loss_scaling.growth", o.loss_scaling.growth},
          {"loss_scaling.backoff", o.loss_scaling.backoff},
          {"loss_scaling.interval", o.loss_scaling.interval},
          {"loss_scaling.smallest", o.loss_scaling.smallest}};
}

/// The members of a network that change numbers and are not in its table of segments; of a model of
/// a user's own those that it has.
template <class M>
nlohmann::json describe_model(const M& model) {
  nlohmann::json j = nlohmann::json::object();
  if constexpr (requires { model.loss; }) j["loss"] = core::describe_policy(model.loss);
  if constexpr (requires { model.dropout_rate; }) j["dropout_rate"] = to_json(model.dropout_rate);
  if constexpr (requires { model.freeze_batch_norm_at; })
    j["freeze_batch_norm_at"] = to_json(model.freeze_batch_norm_at);
  if constexpr (requires { model.batch_norm_moving_average; })
    j["batch_norm_moving_average"] = model.batch_norm_moving_average;
  return j;
}

/// What a run must share with a checkpoint to continue, for the most part, what it should, and
/// where it was made. Numbers in its texts have as many digits as give them back or, as an older
/// version wrote them, six.
template <class Run>
nlohmann::json describe_run(Run& run, bool exact_numbers = true) {
  const core::exact_numbers all_digits(exact_numbers);
  return {{"format", format},
          {"exact_numbers", exact_numbers},
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
          {"model", describe_model(run.model())},
          {"weights_differ", Run::weights_differ},
          {"network", concat(core::fingerprint(run.segments()))},
          {"seed", run.options().seed}};
}

/// Throws a std::exception unless `saved` has what describe_run gives, except in a newer format.
inline void expect_description(const nlohmann::json& saved) {
  (void)saved.at("cordee").get_ref<const std::string&>();
  if (count_at<int>(saved, "format") > format) return;
  (void)count_at<std::int64_t>(saved, "step");
  if (count_at<int>(saved, "ranks") == 0) throw error("it is of 0 ranks");
  (void)saved.at("weights_differ").get_ref<const bool&>();
  for (const char* name :
       {"precision", "device", "optimizer_type", "optimizer", "reducer", "schedule", "network"})
    (void)saved.at(name).get_ref<const std::string&>();
  (void)saved.at("options").get_ref<const nlohmann::json::object_t&>();
  if (saved.contains("exact_numbers"))  // else of an older version
    (void)saved.at("exact_numbers").get_ref<const bool&>();
  if (saved.contains("model"))  // likewise
    (void)saved.at("model").get_ref<const nlohmann::json::object_t&>();
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
