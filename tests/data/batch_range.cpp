// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/batch_range.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/custom_quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

struct of_ranks {
  int ranks = 1;
  [[nodiscard]] int size() const { return ranks; }
};

constexpr auto one_sample = [](const auto&) { return 1; };

/// What a source gives in some updates, by seek.
std::vector<int> drawn(auto& feed, std::initializer_list<std::int64_t> updates) {
  std::vector<int> all;
  for (const std::int64_t k : updates) {
    feed.seek(k);
    for (const auto& b : feed.next()) all.push_back(static_cast<int>(*b.data));
    CHECK(feed.step() == k + 1);
  }
  return all;
}

using ints = std::vector<int>;

/// 0, 1, 2, ... without end; a range of a single pass.
struct counted {
  struct iterator {
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    int* at;
    int operator*() const { return *at; }
    iterator& operator++() {
      ++*at;
      return *this;
    }
    void operator++(int) { ++*at; }
    bool operator==(std::default_sentinel_t) const { return *at == 100; }
  };
  int at = 0;
  iterator begin() { return {&at}; }
  static std::default_sentinel_t end() { return {}; }
};

}  // namespace

TEST_CASE("batch_range: a forward range begins anew in each epoch, and is not copied") {
  ints seven{0, 1, 2, 3, 4, 5, 6};
  batch_range feed{seven, of_ranks{2}, {.global_batch = 8, .accumulate = 2}, one_sample};
  static_assert(cordee::detail::train::Feed<decltype(feed)>);
  CHECK(feed.samples() == 24);
  CHECK(feed.steps(1.5) == 5);
  CHECK(feed.epoch(6) == 2);
  CHECK(drawn(feed, {0, 1, 2, 3, 7, 1, 5}) == ints{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 2, 3, 4, 5});
  feed.seek(0);
  CHECK(feed.next()[1].data == &seven[1]);
  batch_range of_list{std::list{3, 4, 5}, of_ranks{}, {.global_batch = 1}, one_sample};
  CHECK(drawn(of_list, {0, 1, 2, 3, 2, 7}) == ints{3, 4, 5, 3, 5, 4});
}

TEST_CASE("batch_range: functions of a number, functions in turn, and ranges of a single pass") {
  const cordee::detail::data::batch_range_options options{
      .global_batch = 4, .updates = 3, .accumulate = 2};
  const ints expected{0, 1, 2, 3, 8, 9, 8, 9, 6, 7};
  batch_range by_number{[](std::int64_t n) { return static_cast<int>(n); }, of_ranks{}, options,
                        one_sample};
  CHECK(drawn(by_number, {0, 1, 4, 4, 3}) == expected);
  batch_range in_turn{[n = 0]() mutable { return std::optional<long>(n++); }, of_ranks{}, options,
                      one_sample};
  static_assert(std::is_same_v<decltype(in_turn)::data_type, long>);
  batch_range single_pass{counted{}, of_ranks{}, options, one_sample};
  CHECK(drawn(in_turn, {0, 1, 4, 4}) == ints{0, 1, 2, 3, 8, 9, 8, 9});
  CHECK(drawn(single_pass, {0, 1, 4, 4}) == ints{0, 1, 2, 3, 8, 9, 8, 9});
  for (const std::string& message :
       {error_message([&] { in_turn.seek(3); }), error_message([&] { single_pass.seek(3); })})
    CHECK(contains(message, "update 3 is behind: make a new source"));
  int numbers[]{1, 2, 3};
  batch_range spans{[&](std::int64_t n) { return std::span(numbers).first(1 + n % 3); },
                    of_ranks{},
                    {.global_batch = 2, .updates = 3},
                    [](auto s) { return s.size(); }};
  CHECK(spans.next()[0].count == 1);
  CHECK(spans.next()[0].count == 2);
}

TEST_CASE("batch_range: the update before the last one can be had again from any source") {
  batch_range feed{counted{}, of_ranks{}, {.global_batch = 1, .updates = 3}, one_sample};
  CHECK(drawn(feed, {0, 1, 2, 1, 2, 3}) == ints{0, 1, 2, 1, 2, 3});
}

TEST_CASE("batch_range: wrong options, and batches that end") {
  const auto message = [](auto&& f) { return error_message(f); };
  const ints three{1, 2, 3};
  CHECK(contains(message([&] { batch_range(three, of_ranks{}, {}, one_sample); }),
                 ".global_batch, the samples of an update over all ranks"));
  CHECK(contains(message([&] {
                   batch_range(three, of_ranks{},
                               {.global_batch = 1, .updates = 2, .accumulate = 2}, one_sample);
                 }),
                 "the range has 3 batches, 2 updates take 2 each"));
  CHECK(contains(
      message([&] { batch_range(counted{}, of_ranks{}, {.global_batch = 1}, one_sample); }),
      "set .updates, the updates of an epoch"));
  batch_range ends{[n = 0]() mutable { return n < 3 ? std::optional(n++) : std::nullopt; },
                   of_ranks{},
                   {.global_batch = 1, .updates = 5, .accumulate = 2},
                   one_sample};
  CHECK(ends.next().size() == 2);
  CHECK(contains(message([&] { (void)ends.next(); }),
                 "the batches ended before number 3, of update 1: each rank needs 2 for every"));
  batch_range pass_ends{
      counted{.at = 99}, of_ranks{}, {.global_batch = 1, .updates = 5}, one_sample};
  CHECK(pass_ends.next().size() == 1);
  CHECK(contains(message([&] { (void)pass_ends.next(); }), "ended before number 1, of update 1"));
  batch_range negative{three, of_ranks{}, {.global_batch = 1}, [](int) { return -1; }};
  CHECK(contains(message([&] { (void)negative.next(); }), "is negative"));
}

TEST_CASE("batch_range: fit has the bits of steps in a loop, over unequal and changing shares") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto weights = [&](bool fits) {
      return on_ranks(ranks, [&](threads comm) {
        const std::vector<shift> batches{0.25, 0.5, double(comm.rank())};
        const auto count = [&](const shift& b) { return comm.rank() + (b == 0.5 ? 2 : 1); };
        auto model = quadratic_model_of<fp64>();
        trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
        batch_range feed{batches, comm, {.global_batch = 3 * ranks}, count};
        if (fits) {
          const auto done = run.fit(feed, 2);
          CHECK(done.steps == 6);
          CHECK(done.last.train.count == ranks * (ranks - 1) * 3 / 2 + 4 * ranks);
        } else {
          for (int k = 0; k < 6; ++k) {
            const shift& own = batches[static_cast<std::size_t>(k % 3)];
            run.step(own, count(own), k / 3.0);
          }
        }
        return copy(run.weights());
      });
    };
    const auto fitted = weights(true), looped = weights(false);
    for (std::size_t r = 0; r < fitted.size(); ++r) CHECK(same_bits(fitted[r], looped[r]));
  }
}

TEST_CASE("batch_range: ranks whose ranges have different lengths are refused before a step") {
  const std::string message = error_message([] {
    threads::launch(2, [](threads comm) {
      const std::vector<shift> batches(comm.rank() == 0 ? 3 : 2);
      auto model = quadratic_model_of<fp64>();
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
      batch_range feed{batches, comm, {.global_batch = 2}, one_sample};
      run.fit(feed, 1);
    });
  });
  CAPTURE(message);
  CHECK(contains(message, "the number of samples"));
}
