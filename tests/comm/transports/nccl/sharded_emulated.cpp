// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded updates of GPUs over the test double of NCCL, beside those over threads on CPUs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/threaded_gpu.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct half {
  double operator()(double) const { return 0.5; }
};

/// Weights and, if sharded, momenta after four steps, one of which is skipped.
template <class D, class R>
std::vector<float> train(const D& device, const R& reducer) {
  written_model<fp16, D> model{.table = written_table, .on = device};
  if (reducer.comm.rank() == 0) model.poisoned_step = 1;
  const sgd optimizer{.momentum = 0.9, .weight_decay = 0.01};
  trainer run{model, optimizer, half{}, reducer, {.bucket_bytes = 1600}};
  for (int k = 0; k < 4; ++k) {
    batch<D> one;
    one.count = 1;
    one.global_samples = one.ranks = reducer.comm.size();
    one.first_sample = 8 * reducer.comm.rank();
    CHECK(run.step(std::span(&one, 1), k).applied == (k != 1));
  }
  std::vector<float> all;
  const auto add = [&](span_on<const float, D> plane) {
    const auto host = copy_to_host<float, D>(device, plane, run.compute());
    for (const segment& s : written_table)
      if (s.kind != kind::statistic)
        all.insert(all.end(), &host[s.offset], &host[s.offset] + s.size);
  };
  add(run.weights());
  buffer<float, D> momenta(device, run.weights().size);
  if constexpr (requires { run.gather_slot(0, momenta.span()); }) {
    run.gather_slot(0, momenta.span());
    add(momenta.span());
  } else {
    add(run.slot(0));
  }
  return all;
}

}  // namespace

TEST_CASE("sharded: over NCCL ranks have the bits of ranks over threads on CPUs") {
  for (const int ranks : {1, 2, 3})
    for (const bool masters : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(masters);
      const auto expected =
          on_ranks(ranks, [](threads comm) { return train(cpu(1), sharded{ring{comm}}); });
      launch_nccl(
          ranks,
          [&](nccl comm) {
            const threaded_gpu device;
            CHECK(same_bits(train(device, sharded{ring{comm}, masters}), expected[0]));
          },
          std::chrono::seconds(60));
    }
}

TEST_CASE("sharded: over NCCL's own halves, beside NCCL's own mean") {
  for (const int ranks : {1, 2, 3, 5})
    for (const bool masters : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(masters);
      launch_nccl(
          ranks,
          [&](nccl comm) {
            const threaded_gpu device;
            const auto whole = train(device, native{comm});
            const auto shards = train(device, sharded{native{comm}, masters});
            // Sums of two numbers have one order, longer ones that of the collective.
            if (ranks <= 2) CHECK(same_bits(shards, whole));
            REQUIRE(shards.size() == whole.size());
            float largest = 0, most = 0;
            for (std::size_t i = 0; i < whole.size(); ++i) {
              largest = std::max(largest, std::abs(whole[i]));
              most = std::max(most, std::abs(shards[i] - whole[i]));
            }
            // Each of three applied steps rounds p sums, and momentum repeats what they differ by.
            CHECK(most <= 3 * 3 * static_cast<float>(ranks) * largest *
                              std::numeric_limits<float>::epsilon());
          },
          std::chrono::seconds(60));
    }
}
