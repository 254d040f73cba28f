// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/train/step/courier.hpp>

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

/// Two ranks in virtual time, of which start_task runs f at once. Counts each task's joins; unlike
/// a std::thread it stays joinable.
struct joinable_after_join {
  struct event {};
  class task {
   public:
    task() = default;
    explicit task(int& joins) : joins_(&joins) {}
    task(task&& other) noexcept : joins_(std::exchange(other.joins_, nullptr)) {}
    task& operator=(task&& other) noexcept {
      joins_ = std::exchange(other.joins_, nullptr);
      return *this;
    }
    [[nodiscard]] bool joinable() const { return joins_ != nullptr; }
    void join() { ++*joins_; }

   private:
    int* joins_ = nullptr;
  };
  static constexpr bool blocks_host = false;

  std::deque<int>* joins;  // by task

  [[nodiscard]] static int rank() { return 0; }
  [[nodiscard]] static constexpr int size() { return 2; }
  [[nodiscard]] static double now() { return 0; }
  [[nodiscard]] static event record() { return {}; }
  static void await(event) {}
  template <class F>
  [[nodiscard]] task start_task(F f) const {
    f();
    return task(joins->emplace_back(0));
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

TEST_CASE("courier: in virtual time it joins each task once, even one that then stays joinable") {
  std::vector<int> order;
  std::thread::id thread;
  std::deque<int> joins;
  const recording_reducer<joinable_after_join> reducer{{&joins}, &order, &thread};
  float x = 1;
  const bucket b{};
  {
    courier_of<joinable_after_join> c(reducer, cpu(1), 2);
    for (int step = 0; step < 3; ++step) {
      c.begin_step({});
      for (int k = 0; k < 2; ++k) c.post({{&b, {&x, 1}, {}, {}}, step_info{}}, {});
      c.finish();
    }
    c.post({{&b, {&x, 1}, {}, {}}, step_info{}}, {});
  }
  CHECK(x == 1e7F);
  CHECK(joins == std::deque<int>(7, 1));
}
