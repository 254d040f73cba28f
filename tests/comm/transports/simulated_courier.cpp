// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A courier that is a fiber of its rank.
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/train/step/courier.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Takes two seconds for a bucket; records when it begins.
struct slow_reducer {
  using communicator_type = simulated;
  static constexpr agreement offers = agreement::loose;
  static constexpr int slots = 0;

  simulated comm;
  std::vector<double>* begun;

  template <class Real>
  std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, class D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {
    begun->push_back(comm.now());
    comm.compute(2);
  }
};

}  // namespace

TEST_CASE("simulated courier: a bucket begins when it is posted and the one before has ended") {
  simulated::launch(2, [](simulated comm) {
    std::vector<double> begun;
    const slow_reducer reducer{comm, &begun};
    detail::train::courier<slow_reducer, float, phantom> c(reducer, comm.device(), 4);
    CHECK(c.is_threaded());
    const bucket b{};
    const auto post_at = [&](double time) {
      comm.await({.seconds = time});
      c.post({{&b, {nullptr, 64}, {}, {}}, step_info{}}, {});
    };
    post_at(1);
    post_at(2);
    post_at(6);
    CHECK(comm.now() == 6);
    c.finish();
    CHECK(comm.now() == 8);
    CHECK(begun == std::vector{1.0, 3.0, 6.0});
    c.begin_step({});
    post_at(10);
    std::array<double, 1> sum{1};
    allreduce_host(comm, sum, reduce_op::sum);  // another fiber runs meanwhile
    CHECK(begun.size() == 4);
    post_at(11);
    c.finish();
    CHECK(begun.back() == 12);
    CHECK(comm.now() == 14);
  });
}

namespace {

/// Throws no std::exception for its first bucket.
struct throwing_reducer : slow_reducer {
  bool* thrown;

  template <class Real, class D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {
    if (!std::exchange(*thrown, true)) throw 1;
    std::array<double, 1> sum{1};
    allreduce_host(comm, sum, reduce_op::sum);
  }
};

}  // namespace

TEST_CASE("simulated courier: after an exception of any type the next step is served, and fails") {
  std::array<std::string, 2> next;
  CHECK(contains(error_message([&] {
                   simulated::launch(2, [&](simulated comm) {
                     bool thrown = false;
                     const throwing_reducer reducer{{comm, nullptr}, &thrown};
                     detail::train::courier<throwing_reducer, float, phantom> c(reducer,
                                                                                comm.device(), 4);
                     const bucket b{};
                     const auto step = [&] {
                       c.post({{&b, {nullptr, 64}, {}, {}}, step_info{}}, {});
                       c.finish();
                     };
                     CHECK_THROWS_AS(step(), int);
                     next[static_cast<std::size_t>(comm.rank())] = error_message(step);
                   });
                 }),
                 "not a std::exception"));
  for (const std::string& text : next) CHECK(contains(text, "aborted"));
}
