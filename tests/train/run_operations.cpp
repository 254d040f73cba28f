// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fit, evaluate, save, load and with_mean_model have tests of their own: here, that a failure of
// one rank in any of them ends it on every rank.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/run_operations.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The messages by rank of f(run, rank), which fails on rank 1 of 3.
template <class F>
std::deque<std::string> messages(const F& f) {
  std::deque<std::string> by_rank(3);
  error_message([&] {
    threads::launch(
        3,
        [&](threads comm) {
          // Around the constructor, too: rank 1 may have failed before the others have a trainer.
          try {
            quadratic<fp64> model;
            trainer run{model, local_steps{sgd{}, 2}, constant{0.1}, ring{comm}};
            f(run, comm.rank());
          } catch (const std::exception& e) {
            by_rank[static_cast<std::size_t>(comm.rank())] = e.what();
            throw;
          }
        },
        long_deadline);
  });
  return by_rank;
}

struct failing_data : toy_data {
  bool fails = false;
  int read(std::size_t k, std::span<std::uint8_t> pixels) const {
    if (fails) throw error("this disk is broken");
    return toy_data::read(k, pixels);
  }
};

}  // namespace

TEST_CASE("run_operations: a failure of one rank ends the operation on every rank") {
  for (const std::string& message : messages([](auto& run, int rank) {
         failing_data data;
         data.fails = rank == 1;
         run.evaluate(data, {});
       }))
    CHECK(contains(message, "this disk is broken"));
  for (const std::string& message : messages([](auto& run, int rank) {
         run.with_mean_model([&] {
           if (rank == 1) throw error("this mean is wrong");
           std::array<double, 1> all{};
           allreduce_host(run.comm(), all, reduce_op::sum);
           return 0;
         });
       }))
    CHECK(contains(message, "this mean is wrong"));
  for (const std::string& message : messages([](auto& run, int rank) {
         toy_loader feed{.rank_count = rank == 1 ? 2 : 3};
         run.fit(feed, 1);
       }))
    CHECK(contains(message, "different numbers of ranks"));
}

TEST_CASE("run_operations: a file that rank 0 cannot read or write is an error on every rank") {
  for (const std::string& message :
       messages([](auto& run, int) { run.load("/dev/null/weights.safetensors"); }))
    CHECK(contains(message, "/dev/null/weights.safetensors"));
  for (const std::string& message :
       messages([](auto& run, int) { run.save("/dev/null/weights.safetensors"); }))
    CHECK(contains(message, "/dev/null/weights.safetensors"));
}
