// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs that leave an emulated GPU between their steps, with the other policies of memory.
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/swapped_trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/written_model.hpp"
#include "tests/train/swapped_cases.hpp"

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

}  // namespace

SWAPPED_TRAINER_CASES(counted_uploads);

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

TEST_CASE("swapped_trainer: a loss that is scaled, and an average of the weights") {
  same_bits_with_swaps<counted_uploads, member_net<counted_uploads, fp16>>(
      weight_average{member_optimizer, exponential_average{.decay = 0.5}});
}

TEST_CASE("swapped_trainer: weights and activations by block, and the update on the host") {
  using by_block = member_net_by_block<counted_uploads>;
  same_bits_with_swaps<counted_uploads, by_block>(member_optimizer);
  same_bits_with_swaps<counted_uploads, by_block>(on_host{member_optimizer});
  same_bits_with_swaps<counted_uploads, member_net<counted_uploads, fp16>>(
      on_host{member_optimizer});
}

TEST_CASE("swapped_trainer: of a run that is updated on the host only packed weights are freed") {
  run_and_teacher<counted_uploads, member_net<counted_uploads>, on_host<sgd>> all(
      on_host{member_optimizer});
  visit(all.teacher, all.run.compute());  // first weights are downloaded
  swapped_trainer student{all.group, "student", all.run};
  CHECK(student.swapped_bytes() == 0);
  CHECK(student.resident_bytes() == all.net.packed_bytes());
  const std::string text = student.describe();
  CHECK(text.find("it copies nothing") != std::string::npos);
  const std::size_t fresh = all.device.counted().device,
                    downloaded = all.device.counted().downloaded;
  visit(all.teacher, all.run.compute());
  CHECK(fresh - all.device.counted().device == student.resident_bytes());
  CHECK(all.device.counted().downloaded == downloaded);
}

TEST_CASE("swapped_trainer: ranks whose update is sharded swap their slots, too") {
  for (const bool masters : {false, true}) {
    const auto train = [&](threads comm, bool swaps) {
      const counted_uploads device(1);
      written_model<fp32, counted_uploads> model{.table = written_table, .on = device};
      trainer run{model, adamw{.weight_decay = 0.1}, member_rate, sharded{two_shot{comm}, masters}};
      swap_group group{device};
      swapped_model teacher{group, "teacher", member_net<counted_uploads>{device}};
      const swapped_trainer student{group, "student", run};
      for (int k = 0; k < 4; ++k) {
        if (swaps) visit(teacher, run.compute());
        batch<counted_uploads> one;
        one.count = 1;
        one.global_samples = one.ranks = comm.size();
        one.first_sample = 8 * comm.rank();
        CHECK(run.step(std::span(&one, 1), k).applied);
      }
      CHECK(student.swapped_bytes() == run.arena_bytes());
      CHECK(student.describe().find(" in 2 copies") != std::string::npos);
      if (swaps) visit(teacher, run.compute());
      std::vector<float> all = detail::testing::on_host_of(run, run.weights());
      for (int k = 0; k < 2; ++k) {
        buffer<float, counted_uploads> whole(device, run.weights().size);
        if (swaps) visit(teacher, run.compute());
        run.gather_slot(k, whole.span());
        const auto slot = copy_to_host<float, counted_uploads>(device, whole.span(), run.compute());
        all.insert(all.end(), slot.begin(), slot.end());
      }
      return all;
    };
    for (const int ranks : {1, 2, 3}) {
      CAPTURE(ranks);
      const auto expected = on_ranks(ranks, [&](threads comm) { return train(comm, false); });
      const auto swapped = on_ranks(ranks, [&](threads comm) { return train(comm, true); });
      for (std::size_t r = 0; r < expected.size(); ++r) CHECK(same_bits(expected[r], swapped[r]));
    }
  }
}

TEST_CASE(
    "swapped_trainer: an average on its way to a later step arrives before the planes leave") {
  const overlapped outer{outer_momentum{local_steps{sgd{}, 2}, {.mixing = 0.5}}, 1};
  const auto train = [&](threads comm, bool swaps) {
    const counted_uploads device(1);
    written_model<fp32, counted_uploads> model{.table = written_table, .on = device};
    trainer run{model, outer, member_rate, ring{comm}};
    swap_group group{device};
    swapped_model teacher{group, "teacher", member_net<counted_uploads>{device}};
    const swapped_trainer student{group, "student", run};
    for (int k = 0; k < 6; ++k) {
      if (comm.rank() == 1)  // rank 0 has posted its buckets long before
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      batch<counted_uploads> one;
      one.count = 1;
      one.global_samples = one.ranks = comm.size();
      one.first_sample = 8 * comm.rank();
      CHECK(run.step(std::span(&one, 1), k).applied);
      if (swaps) (void)teacher.make_resident(run.compute());
    }
    return weights_on_host(run);
  };
  const auto expected = on_ranks(2, [&](threads comm) { return train(comm, false); });
  const auto swapped = on_ranks(2, [&](threads comm) { return train(comm, true); });
  for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(expected[r], swapped[r]));
}
