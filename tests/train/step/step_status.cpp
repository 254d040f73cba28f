// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/step/step_status.hpp>

using namespace cordee;

namespace {
using detail::train::step_status;

void record_norms(const std::vector<double>& squares, bool keep_nonfinite,
                  detail::train::step_status& status) {
  detail::train::record_norms_op{squares.data(), squares.size(), keep_nonfinite, &status}(0);
}
}  // namespace

TEST_CASE("step_status: norms add up in order; a record with a NaN is counted and left out") {
  detail::train::step_status a;
  record_norms({1, 2}, false, a);
  CHECK((a.squared_global_norm == 3 && a.nonfinite_norms == 0 && a.last_norm_nonfinite == 0));
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    record_norms({4, bad}, false, a);
    CHECK((a.squared_global_norm == 3 && a.last_norm_nonfinite == 1));
  }
  record_norms({}, false, a);
  record_norms({5}, false, a);
  CHECK((a.squared_global_norm == 8 && a.nonfinite_norms == 2 && a.last_norm_nonfinite == 0));
}

TEST_CASE("step_status: with keep_nonfinite the sum is NaN or infinite as the norm was") {
  detail::train::step_status a, b;
  record_norms({1, HUGE_VAL}, true, a);
  CHECK((a.squared_global_norm == HUGE_VAL && a.nonfinite_norms == 1));
  record_norms({std::nan(""), 1}, true, b);
  CHECK((std::isnan(b.squared_global_norm) && b.nonfinite_norms == 1));
}

TEST_CASE("step_status: replace_op copies or clears where the flag is set, else changes nothing") {
  const std::vector<float> from{1, 2, 3};
  for (const std::int32_t flag : {0, 1, 7}) {
    std::vector<float> to{4, 5, 6}, zeroed_buckets = to;
    for (std::size_t i = 0; i < 3; ++i) {
      detail::train::replace_op<float>{&flag, from.data(), to.data()}(i);
      detail::train::replace_op<float>{&flag, nullptr, zeroed_buckets.data()}(i);
    }
    CHECK(to == (flag == 0 ? std::vector<float>{4, 5, 6} : from));
    CHECK(zeroed_buckets == (flag == 0 ? std::vector<float>{4, 5, 6} : std::vector<float>(3)));
  }
}

TEST_CASE("step_status: a step begins with its step_info and no norms, and keeps the loss scale") {
  detail::train::step_status a{.scale = {8, 3},
                               .unscale = 0.125f,
                               .squared_global_norm = 2,
                               .nonfinite_norms = 3,
                               .last_norm_nonfinite = 1};
  detail::train::begin_step_op{
      {.step = 4, .applied = 2, .learning_rate = 0.5, .previous_learning_rate = 0.25}, &a}(0);
  CHECK((a.info.step == 4 && a.info.applied == 2 && a.info.learning_rate == 0.5));
  CHECK(a.info.previous_learning_rate == 0.25);
  CHECK((a.squared_global_norm == 0 && a.nonfinite_norms == 0 && a.last_norm_nonfinite == 0));
  CHECK((a.scale.value == 8 && a.scale.finite_steps == 3 && a.unscale == 0.125f));
}

TEST_CASE("step_status: rescale_op reproduces the golden trace of the loss scale") {
  detail::train::step_status a{.scale = {65536}};
  const std::vector<double> norms{HUGE_VAL, std::nan(""), 1, 1, 1, 1, HUGE_VAL, 1, 1, 1};
  const std::vector<float> scales{32768, 16384, 16384, 16384, 32768,
                                  32768, 16384, 16384, 16384, 32768};
  for (std::size_t k = 0; k < norms.size(); ++k) {
    detail::train::begin_step_op{{}, &a}(0);
    record_norms({1, norms[k]}, true, a);
    detail::train::rescale_op{{.interval = 3}, &a}(0);
    CHECK(a.scale.value == scales[k]);
    CHECK(a.unscale == 1 / scales[k]);
  }
}
