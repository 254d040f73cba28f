// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A short run for callbacks, records made by hand, and the output of a callback.
#pragma once

#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"

namespace support {

/// Two epochs of ten steps, the fourth of which has a NaN, with validation after each epoch.
template <class... Callbacks>
void toy_run(Callbacks&&... callbacks) {
  quadratic<fp64> model;
  model.poisons = {{3, 0}};
  trainer run{model, lars{.trust_coefficient = 0.02}, constant{0.05}, solo{}};
  toy_loader feed;
  run.fit(feed, 2, validation{toy_data{}}, callbacks...);
}

/// Counts the updates of a run.
struct step_counter {
  std::int64_t* steps;
  void step(const step_record&) { ++*steps; }
};

/// Step `k` of `steps`, of ten per epoch, eight samples and 1.5 seconds each.
inline step_record record_of(std::int64_t k, std::int64_t steps = 7220) {
  return {.info = {.step = k, .epoch = static_cast<double>(k) / 10, .learning_rate = 0.25},
          .train = {12, 2, 6, 8},
          .grad_norm = 0.125,
          .seconds = 1.5 * static_cast<double>(k + 1),
          .epochs_seen = static_cast<double>(k + 1) / 10,
          .steps = steps};
}

/// The record with every measurement that a run may lack.
inline step_record measured(step_record r) {
  r.exposed_exchange = 0.25;
  r.loss_scale = 1024;
  r.trust_ratios = cordee::detail::train::quantiles{1, 2, 3, 4, 5};
  return r;
}

/// What f(out) wrote to the file `out`.
template <class F>
std::string written(const F& f) {
  const folder scratch;
  std::FILE* out = std::fopen(scratch.file("out").c_str(), "w");
  REQUIRE(out != nullptr);
  f(out);
  std::fclose(out);
  const file_bytes bytes = scratch.get("out");
  return {bytes.begin(), bytes.end()};
}

/// How often `part` occurs in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace support
