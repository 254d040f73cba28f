// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Scripted arrivals: tests/comm/reducers/server/staleness_clock.cpp. Through a trainer:
// tests/train/server.cpp.
#include <array>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(ReducerOn<server<threads>, float, cpu>);
static_assert(server<threads>::offers == agreement::exact);
static_assert(!InitializableOn<server<threads>, float, cpu>);
static_assert(InitializableOn<server<threads, asynchronous>, float, cpu>);
static_assert(server<threads, asynchronous>::offers == agreement::loose);

namespace {

constexpr asynchronous lockstep{.softsync = 1, .staleness_bound = 0};

// One number of one rank, and the weight that it last received.
struct worker {
  server<threads, asynchronous> reducer;
  double x, received = 0;

  bucket_view<double, cpu, 1> view() {
    return {nullptr, {&x, 1}, {span_on<double, cpu>{&received, 1}}, {}};
  }
  void initialize() { reducer.initialize(view(), cpu::stream{}); }
  void mix() { reducer.mix(view(), step_info{}, cpu::stream{}); }
};

// f(turn) on rank turn % p, for turn 0, 1, ... in this order.
template <class F>
void in_turn(const threads& comm, int turns, const F& f) {
  const int p = comm.size();
  const threads context = comm.duplicate(agreement_context);
  std::byte token{};
  const auto pass = [&](int peer, bool receives) {
    const send_op<cpu> out{peer, {&token, 1}};
    const recv_op<cpu> in{peer, {&token, 1}};
    context.exchange(std::span<const send_op<cpu>>(&out, receives ? 0 : 1),
                     std::span<const recv_op<cpu>>(&in, receives ? 1 : 0), cpu::stream{});
  };
  for (int turn = comm.rank(); turn < turns; turn += p) {
    if (turn > 0) pass((turn - 1) % p, true);
    f(turn);
    if (turn + 1 < turns) pass((turn + 1) % p, false);
  }
}

}  // namespace

TEST_CASE("synchronous server: keeps the laws of an exact reducer, 2(p-1) messages") {
  CHECK(reducer_laws([](auto comm) { return server{comm}; },
                     {.ranks = {1, 2, 3, 4, 7},
                      .messages = [](int r, int p) { return to_size(r == 0 ? p - 1 : 1); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); }}) ==
        "");
}

TEST_CASE("asynchronous server: golden values of three workers in turn") {
  const auto descend = [](const asynchronous& options) {
    std::vector<double> history(6);
    std::vector<std::int64_t> stale;
    on_ranks(3, [&](threads comm) {
      worker w{server{comm, options}, comm.rank() == 0 ? 0.0 : 99.0};
      w.initialize();
      CHECK(w.x == 0);  // rank 0's
      in_turn(comm, 6, [&](int turn) {
        w.x -= 0.2 * (w.x - 3);
        w.mix();
        history[static_cast<std::size_t>(turn)] = w.x;
      });
      std::array<double, 1> done{};  // a barrier: all have pushed
      allreduce_host(comm, done, reduce_op::sum);
      if (comm.rank() == 0) stale = w.reducer.staleness();
      return 0;
    });
    CHECK(stale == std::vector<std::int64_t>{1, 1, 4});
    return history;
  };
  const std::vector plain{0.6, 1.2, 1.8, 2.28, 2.64, 2.88}, aware{0.6, 1.2, 1.5, 1.74, 1.92, 2.07};
  const auto x = descend({}), y = descend({.staleness_aware = true});
  for (std::size_t k = 0; k < 6; ++k) {
    CHECK(close(x[k], plain[k], 1e-12));
    CHECK(close(y[k], aware[k], 1e-12));
  }
}

TEST_CASE("asynchronous server: in lockstep it is an exact mean") {
  for (const int p : {1, 2, 5})
    for (const double x : on_ranks(p, [](threads comm) {
           worker w{server{comm, lockstep}, 1};
           w.initialize();
           for (int k = 0; k < 20; ++k) {
             w.x += comm.rank() + k;
             w.mix();
           }
           return w.x;
         }))
      CHECK(close(x, 1 + 190 + 20 * 0.5 * (p - 1), 1e-12));
}

TEST_CASE(
    "asynchronous server: without a staleness_bound a worker pushes while the others do nothing") {
  on_ranks(3, [](threads comm) {
    worker w{server{comm, asynchronous{}}, 0};
    w.initialize();
    in_turn(comm, 3, [&](int turn) {
      for (int k = 0; k < 10; ++k) {
        w.x += 1;
        w.mix();
        CHECK(w.x == 10 * turn + k + 1);
      }
    });
    return 0;
  });
}

TEST_CASE("asynchronous server: rank 0 serves until the last worker has left") {
  on_ranks(3, [](threads comm) {
    worker w{server{comm, asynchronous{.staleness_bound = 3}}, 0};
    w.initialize();
    for (int k = 0; k < 20 * comm.rank(); ++k) w.mix();
    return 0;
  });
}

TEST_CASE("asynchronous server: one after another, and one that is initialized twice") {
  on_ranks(2, [](threads comm) {
    for (int k = 0; k < 3; ++k) {
      worker w{server{comm, lockstep}, 1.0 * comm.rank()};
      for (int repetition = 0; repetition < 2; ++repetition) {
        w.x = comm.rank() + 10 * k + repetition;
        w.initialize();
        CHECK(w.x == 10 * k + repetition);
        w.x += 2 * comm.rank();
        w.mix();
        CHECK(w.x == 10 * k + repetition + 1);
      }
      // One rank still holds this server while the other starts the next one.
      if (comm.rank() == k % 2) std::this_thread::sleep_for(50ms);
    }
    return 0;
  });
}

TEST_CASE(
    "asynchronous server: a worker that throws, leaves or stops responding is named by the error") {
  enum class fault { throws, leaves, stops_responding };
  for (const auto& [kind, words] : {std::pair{fault::throws, "rank 2: its cause"},
                                    {fault::leaves, "rank 2"},
                                    {fault::stops_responding, "for rank 2 to "}}) {
    stuck_rank stuck;
    const std::string thrown = error_message([&, kind = kind] {
      threads::launch(
          3,
          [&](threads comm) {
            worker w{server{comm, asynchronous{.staleness_bound = 1}}, 0};
            w.initialize();
            for (int k = 0; k < 9; ++k) {
              if (comm.rank() == 2 && kind == fault::throws) throw error("its cause");
              if (comm.rank() == 2 && kind == fault::leaves) return;
              if (comm.rank() == 2) return stuck.block();
              stuck.run_peer([&] { w.mix(); });
            }
            std::byte b{};  // a rank that has finished learns of the failure by this receive
            const recv_op<cpu> in{2, {&b, 1}};
            comm.exchange<cpu>({}, {&in, 1}, cpu::stream{});
          },
          {.deadline = kind == fault::stops_responding ? 1000ms : 30'000ms});
    });
    CAPTURE(thrown);
    CHECK(contains(thrown, words));
  }
}

TEST_CASE(
    "asynchronous server: rank 0 that throws outside of an exchange ends the run with its "
    "message") {
  const std::string thrown = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          worker w{server{comm, asynchronous{}}, 0};
          w.initialize();
          if (comm.rank() == 0) throw error("thrown by rank zero");
          for (int k = 0; k < 1'000'000'000; ++k) w.mix();
        },
        long_deadline);
  });
  CHECK(thrown == "rank 0: thrown by rank zero");
}

TEST_CASE("asynchronous server: a push of another size than rank 0's weights is an error") {
  const std::string thrown = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          const server reducer{comm, asynchronous{}};
          std::vector<double> x(3), received(3);
          const std::size_t n = comm.rank() == 0 ? 3 : 2;
          bucket_view<double, cpu, 1> m{
              nullptr, {x.data(), 3}, {span_on<double, cpu>{received.data(), 3}}, {}};
          reducer.initialize(m, cpu::stream{});
          m.values.size = m.slots[0].size = n;
          reducer.mix(m, step_info{}, cpu::stream{});
        },
        long_deadline);
  });
  CHECK(contains(thrown, "server: rank 1 pushes 16 bytes in numbers of 8, rank 0 has 3 numbers"));
}

TEST_CASE("server: describes itself") {
  on_ranks(4, [](threads comm) {
    CHECK(server{comm}.describe() == "synchronous server on rank 0 of 4: exact mean");
    CHECK(server{comm, asynchronous{}}.describe() ==
          "asynchronous server on rank 0 of 4: an update each push");
    CHECK(server{comm, asynchronous{.softsync = 2, .staleness_bound = 3, .staleness_aware = true}}
              .describe() ==
          "asynchronous server on rank 0 of 4: an update every 2 pushes divided by its staleness, "
          "no rank more than 3 steps ahead of the slowest");
    return 0;
  });
}

TEST_CASE("asynchronous server: to restore a state before initialize() is an error on rank 0") {
  threads::launch(1, [](threads comm) {
    std::vector<double> x{3, 4}, received(2);
    const bucket_view<double, cpu, 1> m{
        nullptr, {x.data(), 2}, {span_on<double, cpu>{received.data(), 2}}, {}};
    const server first{comm, asynchronous{}};
    first.initialize(m, cpu::stream{});
    const reducer_state state = first.state<double>();
    const server second{comm, asynchronous{}};
    second.restore<double>(reducer_state{});
    CHECK_THROWS_WITH_AS(second.restore<double>(state), doctest::Contains("before initialize()"),
                         usage_error);
  });
}
