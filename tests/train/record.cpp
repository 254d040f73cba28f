// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/train/record.hpp>

using namespace cordee;

namespace {

template <class L>
void tell_all(L& l) {
  detail::tell_begin(l, run_plan{.steps = 3});
  detail::tell_step(l, step_record{.skipped = 1});
  detail::tell_epoch(l, epoch_record{.train = {.count = 5}});
  detail::tell_end(l, run_summary{.steps = 7});
}

}  // namespace

TEST_CASE("record: a listener hears what it has ears for, and everything else passes it by") {
  struct every {
    std::string heard;
    void begin(const run_plan& p) { heard += "begin " + std::to_string(p.steps); }
    void step(const step_record& r) { heard += ", step " + std::to_string(r.skipped); }
    void epoch(const epoch_record& r) { heard += ", epoch " + std::to_string(r.train.count); }
    void end(const run_summary& s) { heard += ", end " + std::to_string(s.steps); }
  } all;
  tell_all(all);
  CHECK(all.heard == "begin 3, step 1, epoch 5, end 7");

  struct ends {
    std::int64_t heard = 0;
    void begin(const run_plan& p) { heard += p.steps; }
    void end(const run_summary& s) { heard += 100 * s.steps; }
  } some;
  tell_all(some);
  CHECK(some.heard == 703);

  struct deaf {
  } none;
  tell_all(none);
}

TEST_CASE("record: a listener may take a record by value or as anything that it converts to") {
  struct gist {
    std::int64_t at;
    gist(const step_record& r) : at(r.now.step) {}
  };
  struct summing {
    std::int64_t heard = 0;
    void step(gist g) { heard += g.at; }
    void epoch(epoch_record e) { heard += 10 * e.last.now.step; }
  } l;
  detail::tell_step(l, step_record{.now = {.step = 4}});
  detail::tell_epoch(l, epoch_record{.last = {.now = {.step = 2}}});
  CHECK(l.heard == 24);
}

TEST_CASE("record: before anything happened there is nothing held out and nothing skipped") {
  const run_summary s{};
  CHECK_FALSE(s.last.held_out.has_value());
  CHECK(s.last.last.skipped + s.skipped + s.steps + s.last.train.count == 0);
  CHECK_FALSE(s.last.last.grad_norm_local);
  const run_plan p{};
  CHECK(p.ranks == 1);
  CHECK(p.accumulate == 1);
}
