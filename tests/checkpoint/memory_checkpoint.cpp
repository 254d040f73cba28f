// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Worlds of threads, one after the other, that lose and gain ranks: what each process keeps is an
// object that the next world's rank uses. Processes that are killed are in elastic/.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/memory_checkpoint.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/checkpoint/exact_sums.hpp"
#include "tests/checkpoint/labelled.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
using namespace support::exact;

namespace {

template <class Run>
std::vector<double> numbers_of(Run& run, bool common) {
  std::vector<double> all;
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments)
      for (std::size_t i = 0; i < s.size && p.common == common; ++i)
        all.push_back(static_cast<double>(p.plane.of(s.offset, s.size)[i]));
  return all;
}

constexpr auto over_ring = [](const auto& comm) { return ring{comm}; };

// What differs from rank to rank.
struct outcome {
  std::vector<double> common, own;
  std::vector<int> labels;  // of the samples of all its worlds
  std::int64_t step = 0;
};

// One world, of the processes that keep[...] belong to, to `steps`.
template <class O>
std::deque<outcome> world(std::vector<memory_checkpoint*> keep, const O& optimizer,
                          std::int64_t steps) {
  return on_ranks(static_cast<int>(keep.size()), [&](threads comm) {
    exact_sums<fp64> model;
    trainer run{model, optimizer, falling, ring{comm}, {.check_stability = false}};
    memory_checkpoint& kept = *keep[static_cast<std::size_t>(comm.rank())];
    kept.resume(run);
    auto feed = enumerated_feed(comm);
    run.fit(feed, feed.epoch(steps), kept);
    return outcome{numbers_of(run, true), numbers_of(run, false), model.labels, run.steps_taken()};
  });
}

// Of a rank that is lost in an exchange: it, and all others, throw there.
struct failing_comm {
  static constexpr bool blocks_host = true;

  threads comm;
  std::atomic<int>* left;  // exchanges of this rank up to that one

  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] failing_comm duplicate(int k) const { return {comm.duplicate(k), left}; }
  void abort(const char* why) const { comm.abort(why); }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    if (--*left == 0) throw error("lost");
    comm.exchange(out, in, s);
  }
};

}  // namespace

TEST_CASE("memory_checkpoint: without an event a run has the bits of one without it") {
  const auto check = [](const auto& optimizer, const auto& make_reducer) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const auto end = [&](bool keeps) {
        return on_ranks(ranks, [&](threads comm) {
          labelled<fp32> model;
          trainer run{model, optimizer, falling, make_reducer(comm), {.check_stability = false}};
          auto feed = labelled_feed(comm);
          memory_checkpoint kept;
          CHECK_FALSE(kept.resume(run));
          if (keeps)
            run.fit(feed, 3, kept);
          else
            run.fit(feed, 3);
          CHECK(kept.steps_kept() == (keeps ? run.steps_taken() : -1));
          return std::array{numbers_of(run, true), numbers_of(run, false)};
        });
      };
      const auto with = end(true), without = end(false);
      for (std::size_t r = 0; r < with.size(); ++r)
        for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(with[r][k], without[r][k]));
    }
  };
  check(sgd{.momentum = 0.9}, over_ring);
  check(lars{}, over_ring);
  check(local_steps{sgd{.momentum = 0.9}, 4}, over_ring);
  check(decentlam{}, [](threads comm) { return gossip{comm}; });
  check(sgd{}, [](threads comm) { return compressed{ring{comm}, int8{}}; });
}

TEST_CASE("memory_checkpoint: ranks come and go, and where sums are exact no bit changes") {
  const auto check = [](const auto& optimizer) {
    constexpr std::int64_t steps = 200;
    std::deque<memory_checkpoint> processes(1);
    const auto uninterrupted = world({&processes.front()}, optimizer, steps);
    std::vector<int> expected = uninterrupted.front().labels;
    processes.clear();
    std::vector<memory_checkpoint*> members;
    std::vector<int> trained;
    unsigned random = 7;
    std::int64_t step = 0;
    for (int event = 0; step < steps; ++event) {
      random = random * 1664525 + 1013904223;
      if (members.size() < 2 || (members.size() < 8 && random >> 31 != 0))
        members.push_back(&processes.emplace_back());  // a new process
      else
        members.erase(members.begin() + static_cast<long>((random >> 16) % members.size()));
      step = std::min(steps, step + 1 + static_cast<std::int64_t>((random >> 8) % 5));
      for (const outcome& o : world(members, optimizer, step)) {
        CHECK(o.step == step);
        trained.insert(trained.end(), o.labels.begin(), o.labels.end());
        if (step == steps) CHECK(same_bits(o.common, uninterrupted.front().common));
      }
    }
    std::ranges::sort(expected);
    std::ranges::sort(trained);
    CHECK(trained == expected);  // none is lost, none twice
  };
  check(sgd{.momentum = 0.9});
  check(adamw{});
  check(lars{});
}

TEST_CASE("memory_checkpoint: a rank that has completed one step more gives it to the others") {
  for (const int ahead : {0, 1, 2}) {
    CAPTURE(ahead);
    std::deque<memory_checkpoint> processes(3);
    std::vector<double> expected;
    on_ranks(3, [&](threads comm) {
      exact_sums<fp64> model;
      trainer run{model, sgd{.momentum = 0.9}, falling, ring{comm}, {.check_stability = false}};
      auto feed = enumerated_feed(comm);
      memory_checkpoint& kept = processes[static_cast<std::size_t>(comm.rank())];
      run.fit(feed, feed.epoch(5), kept);
      memory_checkpoint later;  // step 6 of the rank that is ahead
      run.fit(feed, feed.epoch(6), later);
      if (comm.rank() != ahead) return 0;
      kept = std::move(later);
      expected = numbers_of(run, true);
      return 0;
    });
    memory_checkpoint joined;
    const auto end =
        world({&processes[2], &joined, &processes[0], &processes[1]}, sgd{.momentum = 0.9}, 6);
    for (const outcome& o : end) {
      CHECK(o.step == 6);
      CHECK(same_bits(o.common, expected));
      CHECK(o.labels.empty());  // nothing was trained again
    }
    CHECK(joined.steps_kept() == 6);
  }
}

TEST_CASE("memory_checkpoint: where ranks differ the survivors go on with their mean") {
  const auto check = [](const auto& optimizer, const auto& make_reducer) {
    std::deque<memory_checkpoint> processes(4);
    const auto before = on_ranks(4, [&](threads comm) {
      labelled<fp64> model;
      model.shift = 0.1 * comm.rank();
      trainer run{model, optimizer, falling, make_reducer(comm), {.check_stability = false}};
      run.statistics()[0] = 0.5 * comm.rank();
      auto feed = labelled_feed(comm);
      run.fit(feed, feed.epoch(7), processes[static_cast<std::size_t>(comm.rank())]);
      return std::array{numbers_of(run, true), numbers_of(run, false)};
    });
    const std::array<std::size_t, 3> left{0, 2, 3};
    const auto after = on_ranks(3, [&](threads comm) {
      labelled<fp64> model;
      trainer run{model, optimizer, falling, make_reducer(comm), {.check_stability = false}};
      CHECK(processes[left[static_cast<std::size_t>(comm.rank())]].resume(run));
      CHECK(run.steps_taken() == 7);
      return std::array{numbers_of(run, true), numbers_of(run, false)};
    });
    for (const auto& rank : after) {
      CHECK(same_bits(rank[0], before[0][0]));
      REQUIRE(!rank[1].empty());
      for (std::size_t i = 0; i < rank[1].size(); ++i) {
        const double a = before[0][1][i], b = before[2][1][i], c = before[3][1][i];
        const double largest = std::max({std::abs(a), std::abs(b), std::abs(c)});
        CHECK(std::abs(rank[1][i] - (a + b + c) / 3) <= 8 * 2.3e-16 * largest);  // of 8 roundings
      }
    }
  };
  check(sgd{.momentum = 0.9}, over_ring);  // statistics
  check(local_steps{sgd{.momentum = 0.9}, 4}, over_ring);
  check(decentlam{}, [](threads comm) { return gossip{comm}; });
  check(sgd{}, [](threads comm) { return compressed{ring{comm}, int8{}}; });
}

TEST_CASE("memory_checkpoint: what is kept survives a rank that is lost while it is given") {
  std::atomic<int> reached = 0;
  for (int exchange = 1; exchange < 60; ++exchange) {
    CAPTURE(exchange);
    std::deque<memory_checkpoint> processes(4);
    (void)world({&processes[0], &processes[1], &processes[2]}, sgd{.momentum = 0.9}, 6);
    (void)world({&processes[1]}, sgd{.momentum = 0.9}, 7);  // is ahead
    const auto expected = world({&processes[1]}, sgd{.momentum = 0.9}, 7);
    const std::string thrown = error_message([&] {
      threads::launch(
          4,
          [&](threads host_comm) {
            std::atomic<int> left = host_comm.rank() == 1 ? exchange : -1;
            const failing_comm comm{host_comm, &left};
            exact_sums<fp64> model;
            trainer run{
                model, sgd{.momentum = 0.9}, falling, ring{comm}, {.check_stability = false}};
            processes[static_cast<std::size_t>(comm.rank())].resume(run);
          },
          long_deadline);
    });
    if (thrown.empty()) break;
    ++reached;
    CHECK(processes[0].steps_kept() >= 6);
    CHECK(processes[2].steps_kept() >= 6);
    // Without the one that was ahead: the others make the step again.
    for (const outcome& o : world({&processes[0], &processes[2]}, sgd{.momentum = 0.9}, 7))
      CHECK(same_bits(o.common, expected.front().common));
  }
  CHECK(reached > 3);
  CHECK(reached < 58);
}

TEST_CASE("memory_checkpoint: another network, optimizer or precision is refused by name") {
  memory_checkpoint kept;
  (void)world({&kept}, sgd{.momentum = 0.9}, 3);
  for (int other = 0; other < 2; ++other) {
    const std::string thrown = error_message([&] {
      on_ranks(2, [&](threads comm) {
        memory_checkpoint none;
        memory_checkpoint& own = comm.rank() == 1 ? kept : none;
        exact_sums<fp64> model;
        exact_sums<fp32> narrow;
        if (other == 0) {
          trainer run{model, adamw{}, falling, ring{comm}, {.check_stability = false}};
          own.resume(run);
        } else {
          trainer run{
              narrow, sgd{.momentum = 0.9}, falling, ring{comm}, {.check_stability = false}};
          own.resume(run);
        }
        return 0;
      });
    });
    CHECK(contains(thrown, "memory_checkpoint: rank 1 has kept another network, optimizer"));
  }
}
