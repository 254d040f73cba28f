// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/train/courier.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Multiplies by ten; records the buckets' order and its thread; throws at bucket `bad`.
template <class Communicator>
struct recording_reducer {
  using communicator_type = Communicator;
  static constexpr agreement offers = agreement::loose;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Communicator comm;
  std::vector<int>* order;
  std::thread::id* thread;
  int bad = -1;

  template <class Real>
  std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, class D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream) const {
    *thread = std::this_thread::get_id();
    order->push_back(m.layout->index);
    if (m.layout->index == bad) throw error(concat("bucket ", bad, " is lost"));
    for (Real& x : m.values) x *= 10;
  }
};

template <class Communicator>
using courier_of = detail::train::courier<recording_reducer<Communicator>, float, cpu>;

}  // namespace

TEST_CASE("courier: mixes every bucket once, in order, in a thread of its own") {
  on_ranks(2, [](threads comm) {
    std::vector<int> order;
    std::thread::id thread;
    const recording_reducer<threads> reducer{comm, &order, &thread};
    courier_of<threads> c(reducer, cpu(1), 100);
    std::vector<float> x(100, 1);
    std::vector<bucket> buckets(100);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 100; ++i) {
        const auto k = static_cast<std::size_t>(i);
        buckets[k].index = i;
        c.post({{&buckets[k], {&x[k], 1}, {}, {}}, step_info{}}, {});
      }
      c.finish();
      CHECK(x == std::vector<float>(100, static_cast<float>(std::pow(10, round + 1))));
    }
    CHECK(order.size() == 300);
    for (int i = 0; i < 300; ++i) CHECK(order[static_cast<std::size_t>(i)] == i % 100);
    CHECK(thread != std::this_thread::get_id());
    return 0;
  });
}

TEST_CASE("courier: with one rank buckets are mixed in the thread that posts") {
  std::vector<int> order;
  std::thread::id thread;
  const recording_reducer<self_comm> reducer{{}, &order, &thread};
  courier_of<self_comm> c(reducer, cpu(1), 1);
  float x = 1;
  const bucket b{};
  c.post({{&b, {&x, 1}, {}, {}}, step_info{}}, {});
  CHECK(x == 10);
  c.finish();
  CHECK(thread == std::this_thread::get_id());
}

TEST_CASE(
    "courier: an exception of mix drops later buckets, aborts peers, is rethrown by finish once") {
  const std::string message = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          std::vector<int> order;
          std::thread::id thread;
          const recording_reducer<threads> reducer{comm, &order, &thread, 1};
          courier_of<threads> c(reducer, cpu(1), 4);
          std::vector<float> x(4, 1);
          std::vector<bucket> buckets(4);
          for (std::size_t k = 0; k < 4; ++k) {
            buckets[k].index = static_cast<int>(k);
            c.post({{&buckets[k], {&x[k], 1}, {}, {}}, step_info{}}, {});
          }
          CHECK(contains(error_message([&] { c.finish(); }), "bucket 1 is lost"));
          CHECK(x[0] == 10);
          c.finish();
        },
        long_deadline);
  });
  CHECK(contains(message, "bucket 1 is lost"));
}

TEST_CASE("courier: its destructor ends the thread with buckets in the queue") {
  on_ranks(2, [](threads comm) {
    std::vector<int> order;
    std::thread::id thread;
    const recording_reducer<threads> reducer{comm, &order, &thread};
    float x = 1;
    const bucket b{};
    {
      courier_of<threads> c(reducer, cpu(1), 1);
      c.post({{&b, {&x, 1}, {}, {}}, step_info{}}, {});
    }
    CHECK(order.size() <= 1);
    return 0;
  });
}

TEST_CASE(
    "courier: a step that threw leaves no bucket for the next one; a bucket too many is refused") {
  on_ranks(2, [](threads comm) {
    std::vector<int> order;
    std::thread::id thread;
    const recording_reducer<threads> reducer{comm, &order, &thread};
    courier_of<threads> c(reducer, cpu(1), 2);
    float x = 1;
    const bucket b{};
    const auto post = [&] { c.post({{&b, {&x, 1}, {}, {}}, step_info{}}, {}); };
    for (int step = 0; step < 3; ++step) {
      c.begin_step({});
      post();
      post();
    }
    CHECK(contains(error_message(post), "a step posts each bucket once"));
    c.finish();
    CHECK(order.size() == 6);
    return 0;
  });
}
