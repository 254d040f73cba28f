// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/topologies/adjacency.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/checks/same_trainers.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/differing_rank.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The message of each of 4 ranks where rank 2 has another table, or other buckets.
std::vector<std::string> messages(std::span<const segment> other, std::size_t bucket_limit,
                                  std::size_t limit_elsewhere = 1000) {
  const auto by_rank = on_ranks(4, [&](threads comm) {
    const bool odd = comm.rank() == 2;
    const std::span<const segment> table = odd ? other : std::span<const segment>(t4_table);
    return error_message([&] {
      detail::train::expect_same_trainers(
          comm, table, detail::core::make_buckets(table, odd ? bucket_limit : limit_elsewhere));
    });
  });
  return {by_rank.begin(), by_rank.end()};
}
void check_all(const std::vector<std::string>& messages, const char* expected) {
  for (const std::string& message : messages) CHECK(message == expected);
}

constexpr constant steady{0.05};

template <class Optimizer, class Schedule, class R>
void construct(const Optimizer& optimizer, const Schedule& schedule, const R& reducer,
               trainer_options options = {}) {
  quadratic<fp64> model;
  const trainer run{model, optimizer, schedule, reducer, options};
}

}  // namespace

TEST_CASE("same_trainers: equal tables and buckets pass on every rank") {
  check_all(messages(t4_table, 1000), "");
}

TEST_CASE("same_trainers: every rank throws the first tensor that differs, with shapes and rank") {
  auto renamed = t4_table;
  renamed[1].name = "b7";
  check_all(
      messages(renamed, 1000),
      "trainer: tensor 1 of the network differs: rank 0 has \"b1\" (2), bias at 64, rank 2 has "
      "\"b7\" (2), bias at 64: give every rank the same");
  auto reshaped = t4_table;
  reshaped[2].shape = {2, 1, 0, 0};
  reshaped[3].name = "later";
  check_all(
      messages(reshaped, 1000),
      "trainer: tensor 2 of the network differs: rank 0 has \"W2\" (2), weight at 128, rank 2 "
      "has \"W2\" (2, 1), weight at 128: give every rank the same");
}

TEST_CASE(
    "same_trainers: a table that ends early, or is longer, differs in the tensor after its end") {
  check_all(messages(std::span(t4_table).first(4), 1000),
            "trainer: tensor 4 of the network differs: rank 0 has \"seen\" (1), statistic at 256, "
            "rank 2 has none: give every rank the same");
  std::vector<segment> longer(t4_table.begin(), t4_table.end());
  longer.push_back({"extra", kind::statistic, 320, 3});
  check_all(messages(longer, 1000),
            "trainer: tensor 5 of the network differs: rank 0 has none, rank 2 has \"extra\" (3), "
            "statistic at 320: give every rank the same");
}

TEST_CASE("same_trainers: the same tensors in other buckets name bucket_bytes") {
  check_all(
      messages(t4_table, 64),
      "trainer: trainer_options::bucket_bytes, hence the buckets, differs: rank 0 has 256, rank 2 "
      "has 64, 64, 64, 64: give every rank the same");
}

TEST_CASE("same_trainers: as many buckets of other sizes, and a tensor of another kind") {
  check_all(
      messages(t4_table, 192, 128),
      "trainer: trainer_options::bucket_bytes, hence the buckets, differs: rank 0 has 128, 128, "
      "rank 2 has 192, 64: give every rank the same");
  auto other = t4_table;
  other[0].kind = kind::bias;
  check_all(
      messages(other, 1000),
      "trainer: tensor 0 of the network differs: rank 0 has \"W1\" (4), weight at 0, rank 2 has "
      "\"W1\" (4), bias at 0: give every rank the same");
}

TEST_CASE("same_trainers: a name that is longer than the message allows is cut") {
  const std::string name(500, 'x');
  auto renamed = t4_table;
  renamed[0].name = name;
  for (const std::string& message : messages(renamed, 1000)) {
    CHECK(contains(message, "rank 2 has \"xxxx"));
    CHECK(message.size() < 400);
  }
}

TEST_CASE("same_trainers: equal settings pass") {
  CHECK(refusal([](threads comm, bool) {
          construct(lars{}, steady, ring{comm}, {.seed = 3});
        }).empty());
}

TEST_CASE("same_trainers: another learning rate is named with both values and the rank") {
  CHECK(refusal([](threads comm, bool odd) {
          construct(sgd{}, constant{odd ? 0.1 : 0.05}, ring{comm});
        }) ==
        "trainer: the schedule differs: rank 0 has constant 0.05, rank 2 has constant 0.1: "
        "give every rank the same");
  CHECK(refusal([](threads comm, bool odd) {
          construct(
              sgd{}, [=](double) { return odd ? 0.1 : 0.05; }, ring{comm});
        }) ==
        "trainer: the learning rate at epoch 0 differs: rank 0 has 0.05, rank 2 has 0.1: give "
        "every rank the same");
}

TEST_CASE("same_trainers: how AutoWU decides, its seed too") {
  const auto schedule = [](const auto_wu& other) {
    return refusal([&](threads comm, bool odd) {
      construct(sgd{}, odd ? other : auto_wu{.epochs = 9}, ring{comm});
    });
  };
  CHECK(schedule({.epochs = 9}).empty());
  CHECK(contains(schedule({.epochs = 9, .seed = 1}), "the schedule differs: rank 0 has AutoWU"));
  CHECK(contains(schedule({.epochs = 9, .tests = 7}), "the schedule differs"));
  CHECK(contains(schedule({.epochs = 9, .patience = 4}), "the schedule differs"));
  CHECK(contains(schedule({.epochs = 9, .confidence = 0.9}), "the schedule differs"));
}

TEST_CASE("same_trainers: every option of the optimizer, of the reducer and of the trainer") {
  const auto optimizer = [](const lars& other) {
    return refusal(
        [&](threads comm, bool odd) { construct(odd ? other : lars{}, steady, ring{comm}); });
  };
  CHECK(contains(optimizer({.momentum = 0.8}), "the optimizer differs: rank 0 has lars"));
  CHECK(contains(optimizer({.momentum = 0.9 + 3e-7}), "momentum 0.9, "));
  CHECK(contains(optimizer({.momentum = 0.9 + 3e-7}),
                 "rank 2 has lars, trust coefficient 0.001, "
                 "momentum 0.9000003, "));
  CHECK(contains(optimizer({.epsilon = 1e-9}), "the optimizer differs"));
  CHECK(contains(optimizer({.decay_on = kind::bias}), "the optimizer differs"));
  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(local_steps{sgd{}, odd ? 4 : 8}, steady, ring{comm});
                 }),
                 "the optimizer differs"));

  const auto option = [](const trainer_options& other) {
    return refusal([&](threads comm, bool odd) {
      construct(sgd{}, steady, ring{comm}, odd ? other : trainer_options{});
    });
  };
  CHECK(option({.seed = 7}) ==
        "trainer: trainer_options::seed differs: rank 0 has 0, rank 2 has 7: give every rank the "
        "same");
  CHECK(contains(option({.check_finite = false}), "trainer_options::check_finite differs"));
  CHECK(contains(option({.max_nonfinite_steps = 2}), "max_nonfinite_steps differs"));
  CHECK(contains(option({.loss_scaling = {.interval = 2}}), "loss_scaling::interval differs"));
  CHECK(contains(option({.bucket_bytes = 64}), "bucket_bytes"));
  CHECK(option({.overlap = false, .check_stability = false}).empty());

  struct freezing : quadratic<fp64> {
    double freeze_batch_norm_at = 2;
  };
  CHECK(refusal([&](threads comm, bool odd) {
          freezing model;
          if (odd) model.freeze_batch_norm_at = 2.0000001;
          const auto own = detail::train::trainer_settings(
              model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}, trainer_options{});
          detail::train::expect_same_settings(comm, own, "trainer");
        }) ==
        "trainer: freeze_batch_norm_at differs: rank 0 has 2, rank 2 has 2.0000001: give every "
        "rank the same");

  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(sgd{}, steady, hybrid{tree{comm}, ring{comm}, odd ? 10u : 20u});
                 }),
                 "the reducer differs: rank 0 has "));
  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(local_steps{sgd{}, 1}, steady,
                             server{comm, asynchronous{.staleness_bound = odd ? 1 : 2}});
                 }),
                 "the reducer differs"));
}

TEST_CASE("same_trainers: the edges of a topology whose members are private") {
  const auto weights = [](double w) {
    return topologies::adjacency::weighted(
        {{1 - 2 * w, w, w}, {w, 1 - 2 * w, w}, {w, w, 1 - 2 * w}});
  };
  CHECK(
      contains(refusal([&](threads comm, bool odd) {
                 construct(local_steps{sgd{}, 1}, steady, gossip{comm, weights(odd ? 0.25 : 0.3)});
               }),
               "the reducer differs: rank 0 has edges "));
}

namespace {

struct on_another_device : quadratic<fp64> {
  using device = struct emulated_device;
};

}  // namespace

TEST_CASE("same_trainers: replicas that different instruction sets compute") {
  using exact = sgd;
  using averaging = local_steps<sgd>;
  using model = quadratic<fp64>;
  const auto refusal_of = [&]<class M, class O>() {
    return refusal([&](threads comm, bool odd) {
      detail::train::settings own;
      if (odd)
        detail::train::add_instruction_set<M, O>(own, "AVX (simd32)");
      else
        detail::train::add_instruction_set<M, O>(own);
      detail::train::expect_same_settings(comm, own, "trainer");
    });
  };
  CHECK(refusal_of.operator()<model, exact>() ==
        "trainer: the instruction set that the program is compiled for (-march; CORDEE_ISA chooses "
        "it) differs: rank 0 has " +
            detail::train::instruction_set_abi() +
            ", rank 2 has AVX (simd32): give every rank the same");
  CHECK(refusal_of.operator()<on_another_device, exact>().empty());
  CHECK(refusal_of.operator()<model, averaging>().empty());

  const detail::train::settings own = detail::train::trainer_settings(
      model{}, sgd{}, constant{.learning_rate = 0.1}, solo{}, trainer_options{});
  CHECK(contains(std::string(own.lines()), detail::train::instruction_set_abi().c_str()));
}
