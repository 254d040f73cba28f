// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/train/swapped_trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/train/swapped_runs.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A GPU of so much memory, which counts what is freed while work is left on a stream.
struct small_gpu : counted_uploads {
  using counted_uploads::counted_uploads;
  struct limits {
    std::size_t most = std::numeric_limits<std::size_t>::max();
    bool watched = false;
    int freed_early = 0;
  };
  std::shared_ptr<limits> limit = std::make_shared<limits>();

  [[nodiscard]] void* allocate(std::size_t size) const {
    if (counted().device + size > limit->most) throw error("out of the device's memory");
    return counted_uploads::allocate(size);
  }
  void release(void* memory) const noexcept {
    if (limit->watched && memory != nullptr && left() != 0) ++limit->freed_early;
    counted_uploads::release(memory);
  }
};

template <class F>
std::string refusal_of(const F& f) {
  return message_of<usage_error>(f);
}
bool names_both(const std::string& text) {
  return text.find("\"student\" cannot be used while \"teacher\" is resident: end that scope") !=
         std::string::npos;
}

}  // namespace

TEST_CASE_TEMPLATE("swapped_trainer: steps, evaluations and gradients have the bits of a run alone",
                   D, cpu, counted_uploads) {
  same_bits_with_swaps<D, member_net<D>>(member_optimizer);
}

TEST_CASE_TEMPLATE("swapped_trainer: a run in use while another model is resident is refused", D,
                   cpu, counted_uploads) {
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

TEST_CASE("swapped_trainer: bytes held, freed and copied are as stated") {
  small_gpu gpu(0);  // whose work runs as late as it may
  member_net<small_gpu> net{gpu};
  swap_group group{gpu};
  swapped_model teacher{group, "teacher", member_net<small_gpu>{gpu}, 7};
  swapped_model second{group, "second", member_net<small_gpu>{gpu}, 8};
  auto feed = make_member_feed();
  trainer run{net, member_optimizer, member_rate, solo{}};
  for (auto* const model : {&teacher, &second}) visit(*model, run.compute());
  const std::size_t pinned = gpu.counted().pinned, fresh = gpu.counted().device;
  swapped_trainer student{group, "student", run};
  CHECK(gpu.counted().pinned - pinned == student.swapped_bytes());
  CHECK(student.swapped_bytes() == 3 * sizeof(float) * net.plane_size());
  CHECK(student.swapped_bytes() == run.arena_bytes());
  CHECK(student.resident_bytes() == student.swapped_bytes() + net.packed_bytes());

  { const auto resident = teacher.make_resident(run.compute()); }
  const std::size_t without = gpu.counted().device;
  CHECK(fresh - without == student.resident_bytes());
  run.fit(feed, 1);
  CHECK(gpu.counted().device > fresh);           // activations
  { const buffer<int, small_gpu> any(gpu, 1); }  // whose release runs what is left
  const auto [uploaded, downloaded] = std::pair(gpu.counted().uploaded, gpu.counted().downloaded);
  {
    gpu.limit->watched = true;
    const auto resident = teacher.make_resident(run.compute());
    gpu.limit->watched = false;
  }
  { const auto resident = second.make_resident(run.compute()); }
  CHECK(gpu.limit->freed_early == 0);
  CHECK(gpu.counted().device == without);
  CHECK(gpu.counted().downloaded - downloaded == student.swapped_bytes());  // once for both
  (void)run.weights();
  CHECK(gpu.counted().uploaded - uploaded ==
        student.swapped_bytes() + teacher.swapped_bytes() + second.swapped_bytes());
  CHECK(gpu.counted().device == fresh);
  using detail::core::grouped;
  const std::string text = student.describe();
  for (const std::string& part :
       {concat(grouped(student.swapped_bytes()), " bytes of page-locked"),
        concat(grouped(student.resident_bytes()), " bytes of the device"),
        concat("downloads ", grouped(student.swapped_bytes()), " bytes in 1 copy")})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("swapped_trainer: on the CPU packed weights are freed, and nothing is copied") {
  run_and_teacher<cpu, member_net<cpu>> all;
  all.run.fit(all.feed, 1);
  const auto* const plane = all.run.weights().data;
  const swapped_trainer student{all.group, "student", all.run};
  CHECK(student.swapped_bytes() == 0);
  CHECK(student.resident_bytes() == all.net.packed_bytes());
  CHECK(student.describe().find("it copies nothing") != std::string::npos);
  const auto& packed = all.run.packed_parameters();
  CHECK(packed.size() > 0);
  {
    const auto resident = all.teacher.make_resident(all.run.compute());
    CHECK(packed.size() == 0);
    CHECK(student.weights().data() == plane);
  }
  CHECK(all.run.weights().data == plane);
  CHECK(packed.size() > 0);
}

TEST_CASE_TEMPLATE("swapped_trainer: a copy of a run's weights is evaluated in its place", D, cpu,
                   counted_uploads) {
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

namespace {

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

}  // namespace

TEST_CASE_TEMPLATE("swapped_trainer: callbacks of fit make another model resident", D, cpu,
                   counted_uploads) {
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

namespace {

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

}  // namespace

TEST_CASE_TEMPLATE("swapped_trainer: within a step no other model becomes resident", D, cpu,
                   counted_uploads) {
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

TEST_CASE_TEMPLATE("swapped_trainer: two runs take turns by being used", D, cpu, counted_uploads) {
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

TEST_CASE("swapped_trainer: a return for which memory is missing fails, and succeeds later") {
  small_gpu gpu(1);
  member_net<small_gpu> net{gpu}, other_net{gpu};
  swap_group group{gpu};
  swapped_model teacher{group, "teacher", member_net<small_gpu>{gpu}};
  auto feed = make_member_feed(), same_feed = make_member_feed();
  trainer run{net, member_optimizer, member_rate, solo{}};
  trainer alone{other_net, member_optimizer, member_rate, solo{}};
  run.fit(feed, 1);
  alone.fit(same_feed, 2);
  swapped_trainer student{group, "student", run};
  { const auto resident = teacher.make_resident(run.compute()); }
  const std::size_t without = gpu.counted().device;
  for (const std::size_t more : {student.swapped_bytes() - 1, student.swapped_bytes()}) {
    gpu.limit->most = without + more;
    CHECK_THROWS_AS((void)run.weights(), error);
    CHECK(gpu.counted().device == without);
    CHECK(student.is_out());
    CHECK(group.resident() == "");
  }
  gpu.limit->most = std::numeric_limits<std::size_t>::max();
  run.fit(feed, 2);
  CHECK(same_bits(weights_on_host(run), weights_on_host(alone)));
}

TEST_CASE_TEMPLATE("swapped_trainer: at its end the run returns, if it can", D, cpu,
                   counted_uploads) {
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

TEST_CASE("swapped_trainer: what it cannot swap is refused where it is made") {
  run_and_teacher<counted_uploads, member_net<counted_uploads>> all;
  using student_type = swapped_trainer<decltype(all.run)>;
  CHECK(refusal_of([&] { student_type(all.group, "", all.run); }).find("a name") !=
        std::string::npos);
  {
    const auto resident = all.teacher.make_resident(all.run.compute());
    CHECK(names_both(refusal_of([&] { student_type(all.group, "student", all.run); })));
  }
  const student_type student(all.group, "student", all.run);
  CHECK(refusal_of([&] { student_type(all.group, "again", all.run); }).find("has one already") !=
        std::string::npos);
  trainer captured{all.net, member_optimizer, member_rate, solo{}, {.capture_graphs = true}};
  CHECK(refusal_of([&] {
          swapped_trainer(all.group, "captured", captured);
        }).find("leave .capture_graphs out") != std::string::npos);
}
