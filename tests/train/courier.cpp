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

// Multiplies by ten and notes who was mixed, in which thread; throws at bucket `bad`.
template <class Link>
struct noting {
  using link_type = Link;
  static constexpr agreement offers = agreement::loose;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  std::vector<int>* order;
  std::thread::id* where;
  int bad = -1;

  template <class Real>
  std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, class D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream) const {
    *where = std::this_thread::get_id();
    order->push_back(m.which->index);
    if (m.which->index == bad) throw error(text("bucket ", bad, " is lost"));
    for (Real& x : m.what) x *= 10;
  }
};

template <class Link>
using carrier = courier<noting<Link>, float, cpu>;

}  // namespace

TEST_CASE("the courier mixes every bucket once, in order, in a thread of its own") {
  on_ranks(2, [](threads link) {
    std::vector<int> order;
    std::thread::id where;
    const noting<threads> reducer{link, &order, &where};
    carrier<threads> c(reducer, cpu(1));
    std::vector<float> x(100, 1);
    std::vector<bucket> buckets(100);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 100; ++i) {
        const auto k = static_cast<std::size_t>(i);
        buckets[k].index = i;
        c.post({{&buckets[k], {&x[k], 1}, {}, {}}, moment{}}, {});
      }
      c.finish();
      CHECK(x == std::vector<float>(100, static_cast<float>(std::pow(10, round + 1))));
    }
    CHECK(order.size() == 300);
    for (int i = 0; i < 300; ++i) CHECK(order[static_cast<std::size_t>(i)] == i % 100);
    CHECK(where != std::this_thread::get_id());
    return 0;
  });
}

TEST_CASE("with nobody to wait for, buckets are mixed where they are posted") {
  std::vector<int> order;
  std::thread::id where;
  const noting<alone> reducer{{}, &order, &where};
  carrier<alone> c(reducer, cpu(1));
  float x = 1;
  const bucket b{};
  c.post({{&b, {&x, 1}, {}, {}}, moment{}}, {});
  CHECK(x == 10);
  c.finish();
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE(
    "finish throws what a mix has thrown, once, drops the rest of the round, and peers are told") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          std::vector<int> order;
          std::thread::id where;
          const noting<threads> reducer{link, &order, &where, 1};
          carrier<threads> c(reducer, cpu(1));
          std::vector<float> x(4, 1);
          std::vector<bucket> buckets(4);
          for (std::size_t k = 0; k < 4; ++k) {
            buckets[k].index = static_cast<int>(k);
            c.post({{&buckets[k], {&x[k], 1}, {}, {}}, moment{}}, {});
          }
          CHECK(contains(complaint([&] { c.finish(); }), "bucket 1 is lost"));
          CHECK(x[0] == 10);
          c.finish();
        },
        patient);
  });
  CHECK(contains(said, "bucket 1 is lost"));
}

TEST_CASE("a courier that is destroyed with work in its queue ends") {
  on_ranks(2, [](threads link) {
    std::vector<int> order;
    std::thread::id where;
    const noting<threads> reducer{link, &order, &where};
    float x = 1;
    const bucket b{};
    {
      carrier<threads> c(reducer, cpu(1));
      c.post({{&b, {&x, 1}, {}, {}}, moment{}}, {});
    }
    CHECK(order.size() <= 1);
    return 0;
  });
}
