// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run to listen to, the records of one by hand, and what a listener wrote.
#pragma once

#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"

namespace support {

/// Two epochs of ten steps, the fourth of which is not finite, with a held-out score after each.
template <class... Listeners>
void toy_run(Listeners&&... listeners) {
  quadratic<fp64> model;
  model.poisons = {{3, 0}};
  trainer run{model, lars{.trust = 0.02}, [](double) { return 0.05; }, solo{}};
  toy_feed feed;
  run.fit(feed, 2, held_out{toy_data{}}, listeners...);
}

/// Step `k` of ten an epoch, on eight samples, at a second and a half a step.
inline step_record record_of(std::int64_t k) {
  return {.now = {.step = k, .epoch = static_cast<double>(k) / 10, .rate = 0.25},
          .train = {12, 2, 6, 8},
          .grad_norm = 0.125,
          .seconds = 1.5 * static_cast<double>(k + 1)};
}

/// What f(out) wrote to the file `out`.
template <class F>
std::string written(const F& f) {
  const folder here;
  std::FILE* out = std::fopen(here.file("out").c_str(), "w");
  REQUIRE(out != nullptr);
  f(out);
  std::fclose(out);
  const file_bytes bytes = here.get("out");
  return {bytes.begin(), bytes.end()};
}

/// How often a part stands in a text.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace support
