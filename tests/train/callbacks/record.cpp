// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/train/callbacks/record.hpp>

using namespace cordee;

namespace {

template <class C>
void call_all(C& callback) {
  detail::train::call_begin(callback, run_plan{.steps = 3});
  detail::train::call_step(callback, step_record{.skipped = 1});
  detail::train::call_begin_validation(callback, step_record{.skipped = 2});
  detail::train::call_epoch(callback, epoch_record{.train = {.count = 5}});
  detail::train::call_end(callback, run_summary{.steps = 7});
}

}  // namespace

TEST_CASE("record: a callback is called for the members that it has, and for no others") {
  struct every {
    std::string calls;
    void begin(const run_plan& p) { calls += "begin " + std::to_string(p.steps); }
    void step(const step_record& r) { calls += ", step " + std::to_string(r.skipped); }
    void begin_validation(const step_record& r) {
      calls += ", validates " + std::to_string(r.skipped);
    }
    void epoch(const epoch_record& r) { calls += ", epoch " + std::to_string(r.train.count); }
    void end(const run_summary& s) { calls += ", end " + std::to_string(s.steps); }
  } all;
  call_all(all);
  CHECK(all.calls == "begin 3, step 1, validates 2, epoch 5, end 7");

  struct ends {
    std::int64_t steps = 0;
    void begin(const run_plan& p) { steps += p.steps; }
    void end(const run_summary& s) { steps += 100 * s.steps; }
  } some;
  call_all(some);
  CHECK(some.steps == 703);

  struct without_members {
  } none;
  call_all(none);
}

TEST_CASE("record: a callback may take a record by value, or a type that it converts to") {
  struct step_number {
    std::int64_t value;
    step_number(const step_record& r) : value(r.info.step) {}
  };
  struct summing {
    std::int64_t sum = 0;
    void step(step_number n) { sum += n.value; }
    void epoch(epoch_record e) { sum += 10 * e.last.info.step; }
  } l;
  detail::train::call_step(l, step_record{.info = {.step = 4}});
  detail::train::call_epoch(l, epoch_record{.last = {.info = {.step = 2}}});
  CHECK(l.sum == 24);
}

TEST_CASE("record: default records have no validation metrics and no skipped steps") {
  const run_summary s{};
  CHECK_FALSE(s.last.validation.has_value());
  CHECK(s.last.last.skipped + s.skipped + s.steps + s.last.train.count == 0);
  CHECK_FALSE(s.last.last.grad_norm_local);
  const run_plan p{};
  CHECK(p.ranks == 1);
  CHECK(p.accumulate == 1);
}
