// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/checkpoint/state_json.hpp>

using namespace cordee;
using namespace cordee::detail::checkpoints;

TEST_CASE("state_json: doubles keep every bit, and NaN and infinity are read back") {
  for (const double x : {0.0, -0.0, 0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5}) {
    const double back = to_double(nlohmann::json::parse(to_json(x).dump()));
    CHECK((back == x && std::signbit(back) == std::signbit(x)));
  }
  CHECK(std::isnan(to_double(to_json(std::nan("")))));
  CHECK(to_double(to_json(HUGE_VAL)) == HUGE_VAL);
  CHECK(to_double(to_json(-HUGE_VAL)) == -HUGE_VAL);
}

TEST_CASE("state_json: a state is read back as it was written") {
  constexpr std::int64_t large = (std::int64_t{1} << 53) - 1;
  detail::train::run_state s;
  s.progress = {large, 3, 4, 1.0 / 3, 0.1, 5};
  s.scale = {32768.5f, 17};
  s.fit = {large, 50000, 256, ~std::uint64_t{0}, 1.0 / 3, 9, {0.7, 11, 12, 13}};
  s.fit.noise.averages = {1, 2, 3, 4, 5, 6, 1.0 / 7};
  s.fit.epochs = 2.5;
  s.fit.data = detail::train::data_description{
      {"cat", "dog"}, true, normalization{.mean = {0.1f}, .scale = {1 / 0.3f}}, {}};
  s.schedule = {0.1, std::nan("")};
  s.reducer.counters = {1, large};
  const detail::train::run_state back = to_run_state(nlohmann::json::parse(to_json(s).dump()));
  CHECK(back.progress == s.progress);
  CHECK((back.fit.noise == s.fit.noise && back.fit.epochs == 2.5));
  CHECK(back.fit.data.class_names == s.fit.data.class_names);
  CHECK(
      (back.fit.data.has_normalization && back.fit.data.normalization == s.fit.data.normalization));
  nlohmann::json older = to_json(s);
  older.erase("data");
  CHECK_FALSE(to_run_state(older).fit.data.has_normalization);
  CHECK(back.scale == s.scale);
  CHECK((back.fit.update == large && back.fit.samples == 50000 && back.fit.global_batch == 256 &&
         back.fit.seed == ~std::uint64_t{0} && back.fit.epochs_per_update == 1.0 / 3 &&
         back.fit.skipped == 9));
  CHECK((back.fit.in_epoch.loss == 0.7 && back.fit.in_epoch.top1 == 11 &&
         back.fit.in_epoch.top5 == 12 && back.fit.in_epoch.count == 13));
  CHECK((back.schedule.size() == 2 && back.schedule[0] == 0.1 && std::isnan(back.schedule[1])));
  CHECK(back.reducer == s.reducer);
  s.fit.in_epoch.top1 = -4;  // the model does not count them
  CHECK(to_run_state(nlohmann::json::parse(to_json(s).dump())).fit.in_epoch.top1 < 0);
}

TEST_CASE("state_json: what no run can have is refused, with its name") {
  const auto refusal = [](const char* name, const nlohmann::json& value) {
    detail::train::run_state state;
    state.fit.global_batch = 1;
    nlohmann::json j = to_json(state);
    (j.contains(name) ? j : j["in_epoch"])[name] = value;
    try {
      to_run_state(nlohmann::json::parse(j.dump()));
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  for (const char* name :
       {"step", "applied", "round", "nonfinite_steps", "nonfinite_in_window", "zero_gradients",
        "finite_steps", "update", "samples", "global_batch", "skipped", "top1", "top5", "count"}) {
    CAPTURE(name);
    CHECK(refusal(name, 7).empty());
    for (const nlohmann::json& value : {nlohmann::json(-1), nlohmann::json(~std::uint64_t{0}),
                                        nlohmann::json((std::int64_t{1} << 53) + 1)})
      CHECK(refusal(name, value)
                .starts_with(concat("\"", name, "\" is ", value.dump(), ", a count")));
    CHECK(refusal(name, 1e300) == "a state has 1e+300 where an integer is expected");
    CHECK(refusal(name, "7") == "a state has \"7\" where an integer is expected");
  }
  for (const double scale : {0.0, -1.0, 1e300, double{NAN}, double{INFINITY}})
    CHECK(refusal("loss_scale", to_json(scale)).starts_with("\"loss_scale\" is "));
  nlohmann::json counts = to_json(detail::train::run_state{});
  counts["samples"] = 7;
  CHECK_THROWS_WITH(to_run_state(counts),
                    "\"update\" is 0 of a global batch of 0, which no loader can have");
  counts["update"] = counts["global_batch"] = std::int64_t{1} << 32;
  CHECK_THROWS(to_run_state(counts));
  CHECK(refusal("epoch", "tomorrow") == "a state has \"tomorrow\" where a number is expected");
  CHECK_FALSE(refusal("loader_seed", 0.5).empty());
  nlohmann::json deep;
  for (int k = 0; k < 1'000'000; ++k) deep = nlohmann::json::array({std::move(deep)});
  nlohmann::json nested = to_json(detail::train::run_state{});
  nested["step"] = std::move(deep);
  CHECK_THROWS_WITH(to_run_state(nested), "a state has an array where an integer is expected");
  CHECK_FALSE(refusal("reducer", nlohmann::json::array({1, 0.5})).empty());
  nlohmann::json incomplete = to_json(detail::train::run_state{});
  incomplete.erase("round");
  CHECK_THROWS(to_run_state(incomplete));
}

TEST_CASE("state_json: a type's name is the same in builds of other instruction sets") {
  CHECK(type_name<step_info>() == "step_info");
  const std::string two = type_name<std::pair<step_info, std::pair<segment, int>>>();
  CHECK(two == "std::pair<step_info, std::pair<segment, int> >");
  CHECK(type_name<detail::train::progress>() == "detail::train::progress");
}
