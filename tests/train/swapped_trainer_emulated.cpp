// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs that leave an emulated GPU between their steps, with the other policies of memory.
#include <chrono>
#include <string>
#include <thread>
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
#include "tests/train/swapped_runs.hpp"

using namespace cordee;
using namespace support;

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
