// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cases of swapped_trainer on any device: swapped_trainer.cpp has them on the CPU, also under
// ThreadSanitizer, swapped_trainer_emulated.cpp on an emulated GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/train/swapped_trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/train/swapped_runs.hpp"

/// The cases on a device.
#define SWAPPED_TRAINER_CASES(DEVICE)                     \
  TEST_CASE_TEMPLATE_INVOKE(swapped_steps, DEVICE);       \
  TEST_CASE_TEMPLATE_INVOKE(swapped_use, DEVICE);         \
  TEST_CASE_TEMPLATE_INVOKE(swapped_copy, DEVICE);        \
  TEST_CASE_TEMPLATE_INVOKE(swapped_callbacks, DEVICE);   \
  TEST_CASE_TEMPLATE_INVOKE(swapped_within_step, DEVICE); \
  TEST_CASE_TEMPLATE_INVOKE(swapped_turns, DEVICE);       \
  TEST_CASE_TEMPLATE_INVOKE(swapped_end, DEVICE)

namespace support {

template <class F>
std::string refusal_of(const F& f) {
  return message_of<usage_error>(f);
}
inline bool names_both(const std::string& text) {
  return text.find("\"student\" cannot be used while \"teacher\" is resident: end that scope") !=
         std::string::npos;
}

TEST_CASE_TEMPLATE_DEFINE(
    "swapped_trainer: steps, evaluations and gradients have the bits of a run alone", D,
    swapped_steps) {
  same_bits_with_swaps<D, member_net<D>>(member_optimizer);
}

TEST_CASE_TEMPLATE_DEFINE(
    "swapped_trainer: a run in use while another model is resident is refused", D, swapped_use) {
  run_and_teacher<D, member_net<D>> all;
  auto& run = all.run;
  run.fit(all.feed, 1);
  swapped_trainer student{all.group, "student", run};
  CHECK(all.group.resident() == "student");
  CHECK(refusal_of([&] { (void)student.weights(); }).find("run.weights()") != std::string::npos);
  const folder files;
  {
    const auto resident = all.teacher.make_resident(run.compute());
    CHECK(all.group.resident() == "teacher");
    CHECK(names_both(refusal_of([&] { run.fit(all.feed, 2); })));
    CHECK(names_both(refusal_of([&] { (void)run.step({}, 1); })));
    CHECK(names_both(refusal_of([&] { run.evaluate(member_images, {}, 4); })));
    CHECK(names_both(refusal_of([&] { run.save(files.file("x.safetensors")); })));
    CHECK(names_both(refusal_of([&] { (void)run.weights(); })));
    CHECK(names_both(refusal_of([&] { (void)run.grads(); })));
    CHECK(names_both(refusal_of([&] { (void)run.held_slot(0); })));
    CHECK(names_both(refusal_of([&] { (void)run.statistics(); })));
    CHECK(names_both(refusal_of([&] { (void)run.packed_parameters(); })));
    CHECK(names_both(refusal_of([&] { run.adopt_weights(); })));
    CHECK(names_both(refusal_of([&] { run.restore(detail::train::run_state{}); })));
    CHECK_THROWS_AS((void)all.teacher.make_resident(run.compute()), usage_error);
  }
  CHECK(all.group.resident() == "");
  run.fit(all.feed, 2);
  CHECK(all.group.resident() == "student");
}

TEST_CASE_TEMPLATE_DEFINE("swapped_trainer: a copy of a run's weights is evaluated in its place", D,
                          swapped_copy) {
  run_and_teacher<D, member_net<D>> all;
  all.run.fit(all.feed, 1);
  const double expected = all.run.evaluate(member_images, {}, 4).loss;
  swapped_trainer student{all.group, "student", all.run};
  swapped_model<member_net<D>> copy{all.group, "copy", member_net<D>{all.device}};
  copy.make_resident(all.run.compute()).adopt_weights(student);
  all.run.fit(all.feed, 2);
  CHECK(all.run.evaluate(member_images, {}, 4).loss != expected);
  CHECK(visit(copy, all.run.compute()) == expected);
  constexpr resnet_options deep{.image = member_image, .classes = 4};
  swapped_model deeper{all.group, "deeper", resnet<8, fp32, D, deep, reference>{all.device}};
  auto resident = deeper.make_resident(all.run.compute());
  CHECK(refusal_of([&] { resident.adopt_weights(student); }).find("another network") !=
        std::string::npos);
}

/// Makes the teacher resident at the end of each epoch, and in the middle of an evaluation.
template <class All>
struct visits_teacher {
  All& all;
  int& visits;
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record&) {
    visits += visit(all.teacher, run.compute()) > 0 ? 1 : 0;
    run.with_mean_model([&] { visits += visit(all.teacher, run.compute()) > 0 ? 1 : 0; });
    return false;
  }
};
struct visits_nothing {
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record&) {
    run.with_mean_model([] {});
    return false;
  }
};

TEST_CASE_TEMPLATE_DEFINE("swapped_trainer: callbacks of fit make another model resident", D,
                          swapped_callbacks) {
  const weight_average optimizer{member_optimizer, exponential_average{.decay = 0.5}};
  run_and_teacher<D, member_net<D>, weight_average<sgd, exponential_average>> alone(optimizer),
      all(optimizer);
  alone.run.fit(alone.feed, 3, visits_nothing{});
  swapped_trainer student{all.group, "student", all.run};
  int visits = 0;
  all.run.fit(all.feed, 3, visits_teacher<decltype(all)>{all, visits});
  CHECK(visits == 6);
  CHECK(same_bits(weights_on_host(alone.run), weights_on_host(all.run)));
}

/// A network that calls `within` in its passes.
template <class D>
struct calling_net : member_net<D> {
  using member_net<D>::member_net;
  std::function<void()> within = [] {};
  void forward(const auto& in, auto plane, const batch<D>& b, phase p, typename D::stream s) {
    within();
    member_net<D>::forward(in, plane, b, p, s);
  }
};

TEST_CASE_TEMPLATE_DEFINE("swapped_trainer: within a step no other model becomes resident", D,
                          swapped_within_step) {
  run_and_teacher<D, calling_net<D>> all;
  swapped_trainer student{all.group, "student", all.run};
  std::string text;
  all.net.within = [&] {
    text = refusal_of([&] { (void)all.teacher.make_resident(all.run.compute()); });
    throw error("a pass that fails");
  };
  for (int tries = 0; tries < 2; ++tries) {  // a failed step, too, may have left work behind
    CHECK_THROWS_AS(all.run.fit(all.feed, 1), error);
    CHECK(text.find("a step of \"student\" has not ended, or has failed: make \"teacher\"") !=
          std::string::npos);
    CHECK_THROWS_AS((void)all.teacher.make_resident(all.run.compute()), usage_error);
  }
  all.net.within = [] {};
  CHECK(all.group.resident() == "student");
  upload<D> uploaded(all.device);
  CHECK(all.run.step(uploaded.to(all.feed.next(), all.run.compute()), 0).applied);
  CHECK(visit(all.teacher, all.run.compute()) > 0);
}

TEST_CASE_TEMPLATE_DEFINE("swapped_trainer: two runs take turns by being used", D, swapped_turns) {
  const D device(1);
  member_net<D> nets[] = {member_net<D>{device}, member_net<D>{device}, member_net<D>{device}};
  trainer alone{nets[0], member_optimizer, member_rate, solo{}};
  trainer one{nets[1], member_optimizer, member_rate, solo{}};
  trainer other{nets[2], member_optimizer, member_rate, solo{}, {.seed = 5}};
  swap_group group{device};
  swapped_trainer first{group, "first", one};
  swapped_trainer second{group, "second", other};
  CHECK((first.is_out() && !second.is_out()));
  auto feed = make_member_feed();
  upload<D> uploaded(device);
  const auto batches = uploaded.to(feed.next(), alone.compute());
  device.finish(alone.compute());
  CHECK(same_updates(alone, one, 3, [&](auto&, int k) {
          if (k > 0) CHECK(other.step(batches, k).applied);
          return batches;
        }) == "");
  CHECK((!first.is_out() && second.is_out()));
}

TEST_CASE_TEMPLATE_DEFINE("swapped_trainer: at its end the run returns, if it can", D,
                          swapped_end) {
  run_and_teacher<D, member_net<D>> all;
  const double expected = all.run.evaluate(member_images, {}, 4).loss;
  {
    const swapped_trainer student{all.group, "student", all.run};
    visit(all.teacher, all.run.compute());
  }
  CHECK(all.group.resident() == "");
  CHECK(all.run.evaluate(member_images, {}, 4).loss == expected);
  auto student =
      std::make_unique<swapped_trainer<decltype(all.run)>>(all.group, "student", all.run);
  const auto resident = all.teacher.make_resident(all.run.compute());
  student.reset();
  CHECK(all.group.resident() == "teacher");
  CHECK(refusal_of([&] { (void)all.run.weights(); }).find("its swapped_trainer ended while") !=
        std::string::npos);
}

}  // namespace support
