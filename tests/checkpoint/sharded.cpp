// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded runs go on with another number of ranks, and so do unsharded ones as sharded ones: their
// checkpoints are alike.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/cut_model.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr int saved_at = 3, last = 6;

/// This rank's share of 16 samples.
batch<cpu> share_of(threads comm) {
  const int first = 16 * comm.rank() / comm.size(), end = 16 * (comm.rank() + 1) / comm.size();
  batch<cpu> b{{}, {}, end - first, 16, comm.size()};
  b.first_sample = first;
  return b;
}

/// Trains to the step `saved_at`, and saves there if `async` is not negative; or from a checkpoint
/// to the end. Without a folder: all of it. The state of each rank.
template <class Make>
auto train(int ranks, const Make& make, const std::string& runs, bool resumes, int async = -1) {
  return on_ranks(ranks, [&](threads comm) {
    cut_model<fp32> model{.exact = true};
    const weight_average optimizer{adamw{.weight_decay = 0.1}, exponential_average{.decay = 0.9}};
    trainer run{model, optimizer, cut_rate{}, make(comm), {.bucket_bytes = 4800}};
    if (resumes) CHECK(run.resume(runs));
    CHECK(run.steps_taken() == (resumes ? saved_at : 0));
    while (run.steps_taken() < (async < 0 ? last : saved_at)) {
      const std::array micro{share_of(comm)};
      CHECK(run.step(micro, 0).applied);
    }
    if (async >= 0) {
      detail::checkpoints::run_folder folder(runs);
      if (comm.rank() == 0) folder.create();
      detail::checkpoints::checkpoint_writer writer;
      writer.save(run, folder, 1, async == 1);
      writer.finish(comm);
    }
    return whole_state(run, optimizer.slots);
  });
}

constexpr auto over_ring = [](threads comm) { return ring{comm}; };
constexpr auto over_sharded = [](threads comm) { return sharded{ring{comm}}; };
constexpr auto over_masters = [](threads comm) { return sharded{ring{comm}, true}; };

}  // namespace

TEST_CASE("sharded: a checkpoint of 4 ranks goes on with 2, 3 or 4, sharded or not, to the bit") {
  const auto whole = train(1, over_ring, "", false);
  for (const int async : {0, 1}) {
    const folder files;
    train(4, over_sharded, files.file("runs"), false, async);
    for (const int ranks : {2, 3, 4})
      for (const auto& state : train(ranks, over_sharded, files.file("runs"), true))
        CHECK(same_bits(state, whole[0]));
    for (const auto& state : train(2, over_ring, files.file("runs"), true))
      CHECK(same_bits(state, whole[0]));
  }
}

TEST_CASE("sharded: a checkpoint of an unsharded run goes on sharded, to the bit") {
  const auto whole = train(1, over_ring, "", false);
  const folder files;
  train(4, over_ring, files.file("runs"), false, 1);
  for (const auto& state : train(3, over_sharded, files.file("runs"), true))
    CHECK(same_bits(state, whole[0]));
}

TEST_CASE("sharded: a checkpoint of sharded masters goes on with 2 or 3 ranks, to the bit") {
  const auto whole = train(1, over_ring, "", false);
  for (const int async : {0, 1}) {
    const folder files, others;
    train(4, over_masters, files.file("runs"), false, async);
    train(4, over_sharded, others.file("runs"), false, async);
    const auto goes_on = [&](int ranks, const auto& make, const folder& from) {
      for (const auto& state : train(ranks, make, from.file("runs"), true))
        CHECK(same_bits(state, whole[0]));
    };
    goes_on(2, over_masters, files);
    goes_on(3, over_masters, files);
    goes_on(3, over_sharded, files);
    goes_on(2, over_masters, others);
  }
}
