// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
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
  constexpr std::int64_t large = (std::int64_t{1} << 62) + 1;
  run_state s;
  s.progress = {large, 3, 4, 1.0 / 3, 0.1, 5};
  s.scale = {32768.5f, 17};
  s.fit = {large, 50000, 256, ~std::uint64_t{0}, 1.0 / 3, 9, {0.7, 11, 12, 13}};
  s.schedule = {0.1, std::nan("")};
  s.reducer.counters = {1, large};
  const run_state back = to_run_state(nlohmann::json::parse(to_json(s).dump()));
  CHECK(back.progress == s.progress);
  CHECK(back.scale == s.scale);
  CHECK((back.fit.update == large && back.fit.samples == 50000 && back.fit.global_batch == 256 &&
         back.fit.seed == ~std::uint64_t{0} && back.fit.epochs_per_update == 1.0 / 3 &&
         back.fit.skipped == 9));
  CHECK((back.fit.in_epoch.loss == 0.7 && back.fit.in_epoch.top1 == 11 &&
         back.fit.in_epoch.top5 == 12 && back.fit.in_epoch.count == 13));
  CHECK((back.schedule.size() == 2 && back.schedule[0] == 0.1 && std::isnan(back.schedule[1])));
  CHECK(back.reducer == s.reducer);
  nlohmann::json incomplete = to_json(s);
  incomplete.erase("round");
  CHECK_THROWS(to_run_state(incomplete));
}

TEST_CASE("state_json: a type's name is the same in builds of other instruction sets") {
  CHECK(type_name<run_state>() == "run_state");
  const std::string two = type_name<std::pair<run_state, std::pair<segment, int>>>();
  CHECK(two == "std::pair<run_state, std::pair<segment, int> >");
  CHECK(type_name<detail::train::progress>() == "detail::train::progress");
}
