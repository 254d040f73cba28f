// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who is how far, by scripts: tests/comm/server/pace.cpp. Through a trainer:
// tests/train/server.cpp.
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

static_assert(ReducerOn<server<threads>, float, cpu>);
static_assert(server<threads>::offers == agreement::exact);
static_assert(!BeginsOn<server<threads>, float, cpu>);
static_assert(BeginsOn<server<threads, asynchronous>, float, cpu>);
static_assert(server<threads, asynchronous>::offers == agreement::loose);

namespace {

constexpr asynchronous lockstep{.softsync = 1, .bound = 0};

// One number of one rank, and what it was last told.
struct worker {
  server<threads, asynchronous> at;
  double x, told = 0;

  message<double, cpu, 1> all() { return {nullptr, {&x, 1}, {span_on<double, cpu>{&told, 1}}, {}}; }
  void begin() { at.begin(all(), cpu::stream{}); }
  void mix() { at.mix(all(), moment{}, cpu::stream{}); }
};

// f(turn) on this rank when it is its turn: every rank's in a row, again and again.
template <class F>
void in_turn(const threads& link, int turns, const F& f) {
  const int p = link.size();
  const threads lane = link.lane(agree_lane);
  std::byte token{};
  const auto pass = [&](int peer, bool hears) {
    const to<cpu> out{peer, {&token, 1}};
    const from<cpu> in{peer, {&token, 1}};
    lane.exchange(std::span<const to<cpu>>(&out, hears ? 0 : 1),
                  std::span<const from<cpu>>(&in, hears ? 1 : 0), cpu::stream{});
  };
  for (int turn = link.rank(); turn < turns; turn += p) {
    if (turn > 0) pass((turn - 1) % p, true);
    f(turn);
    if (turn + 1 < turns) pass((turn + 1) % p, false);
  }
}

}  // namespace

TEST_CASE("the synchronous server keeps the laws of an exact mean: a star of 2(p-1) messages") {
  CHECK(reducer_laws([](auto link) { return server{link}; },
                     {.ranks = {1, 2, 3, 4, 7},
                      .messages = [](int r, int p) { return whole(r == 0 ? p - 1 : 1); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE("the asynchronous server: golden, three workers in turn") {
  const auto descend = [](const asynchronous& how) {
    std::vector<double> seen(6);
    std::vector<std::int64_t> stale;
    on_ranks(3, [&](threads link) {
      worker w{server{link, how}, link.rank() == 0 ? 0.0 : 99.0};
      w.begin();
      CHECK(w.x == 0);  // rank 0's
      in_turn(link, 6, [&](int turn) {
        w.x -= 0.2 * (w.x - 3);
        w.mix();
        seen[static_cast<std::size_t>(turn)] = w.x;
      });
      std::array<double, 1> done{};  // all have pushed
      agree(link, done, sum{});
      if (link.rank() == 0) stale = w.at.staleness();
      return 0;
    });
    CHECK(stale == std::vector<std::int64_t>{1, 1, 4});
    return seen;
  };
  const std::vector plain{0.6, 1.2, 1.8, 2.28, 2.64, 2.88}, aware{0.6, 1.2, 1.5, 1.74, 1.92, 2.07};
  const auto x = descend({}), y = descend({.staleness_aware = true});
  for (std::size_t k = 0; k < 6; ++k) {
    CHECK(close(x[k], plain[k], 1e-12));
    CHECK(close(y[k], aware[k], 1e-12));
  }
}

TEST_CASE("the asynchronous server in lockstep is an exact mean") {
  for (const int p : {1, 2, 5})
    for (const double x : on_ranks(p, [](threads link) {
           worker w{server{link, lockstep}, 1};
           w.begin();
           for (int k = 0; k < 20; ++k) {
             w.x += link.rank() + k;
             w.mix();
           }
           return w.x;
         }))
      CHECK(close(x, 1 + 190 + 20 * 0.5 * (p - 1), 1e-12));
}

TEST_CASE("without a bound nobody waits: one worker pushes while the others are away") {
  on_ranks(3, [](threads link) {
    worker w{server{link, asynchronous{}}, 0};
    w.begin();
    in_turn(link, 3, [&](int turn) {
      for (int k = 0; k < 10; ++k) {
        w.x += 1;
        w.mix();
        CHECK(w.x == 10 * turn + k + 1);
      }
    });
    return 0;
  });
}

TEST_CASE("rank 0 serves on until the last worker has left") {
  on_ranks(3, [](threads link) {
    worker w{server{link, asynchronous{.bound = 3}}, 0};
    w.begin();
    for (int k = 0; k < 20 * link.rank(); ++k) w.mix();
    return 0;
  });
}

TEST_CASE("one server after another, and one that is begun again") {
  on_ranks(2, [](threads link) {
    for (int k = 0; k < 3; ++k) {
      worker w{server{link, lockstep}, 1.0 * link.rank()};
      for (int again = 0; again < 2; ++again) {
        w.x = link.rank() + 10 * k + again;
        w.begin();
        CHECK(w.x == 10 * k + again);
        w.x += 2 * link.rank();
        w.mix();
        CHECK(w.x == 10 * k + again + 1);
      }
      // Whoever lingers is still at a server that the other has left for the next one.
      if (link.rank() == k % 2) std::this_thread::sleep_for(50ms);
    }
    return 0;
  });
}

TEST_CASE("a worker that dies, leaves or falls silent ends the run with its name") {
  enum class fault { throws, leaves, silent };
  for (const auto& [how, words] : {std::pair{fault::throws, "rank 2: its own words"},
                                   {fault::leaves, "rank 2"},
                                   {fault::silent, "for rank 2 to "}}) {
    crevasse deep;
    const std::string said = complaint([&, how = how] {
      threads::launch(3,
                      [&](threads link) {
                        worker w{server{link, asynchronous{.bound = 1}}, 0};
                        w.begin();
                        for (int k = 0; k < 9; ++k) {
                          if (link.rank() == 2 && how == fault::throws)
                            throw error("its own words");
                          if (link.rank() == 2 && how == fault::leaves) return;
                          if (link.rank() == 2) return deep.fall();
                          deep.beside([&] { w.mix(); });
                        }
                        std::byte b{};  // whoever goes on finds out here
                        const from<cpu> in{2, {&b, 1}};
                        link.exchange<cpu>({}, {&in, 1}, cpu::stream{});
                      },
                      {.deadline = how == fault::silent ? 1000ms : 30'000ms});
    });
    CAPTURE(said);
    CHECK(contains(said, words));
  }
}

TEST_CASE("rank 0 that throws outside of any exchange ends the run with its own words") {
  const std::string said = complaint([] {
    threads::launch(
        3,
        [](threads link) {
          worker w{server{link, asynchronous{}}, 0};
          w.begin();
          if (link.rank() == 0) throw error("rank zero's own words");
          for (int k = 0; k < 1'000'000'000; ++k) w.mix();
        },
        patient);
  });
  CHECK(said == "rank 0: rank zero's own words");
}

TEST_CASE("ranks that push other numbers than rank 0 keeps are refused") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          const server at{link, asynchronous{}};
          std::vector<double> x(3), told(3);
          const std::size_t n = link.rank() == 0 ? 3 : 2;
          message<double, cpu, 1> m{
              nullptr, {x.data(), 3}, {span_on<double, cpu>{told.data(), 3}}, {}};
          at.begin(m, cpu::stream{});
          m.what.size = m.memory[0].size = n;
          at.mix(m, moment{}, cpu::stream{});
        },
        patient);
  });
  CHECK(contains(said, "server: rank 1 pushes 16 bytes in numbers of 8, rank 0 keeps 3 numbers"));
}

TEST_CASE("a server says what it is") {
  on_ranks(4, [](threads link) {
    CHECK(server{link}.describe() == "synchronous server on rank 0 of 4: exact mean");
    CHECK(server{link, asynchronous{}}.describe() ==
          "asynchronous server on rank 0 of 4: an update each push");
    CHECK(
        server{link, asynchronous{.softsync = 2, .bound = 3, .staleness_aware = true}}.describe() ==
        "asynchronous server on rank 0 of 4: an update every 2 pushes divided by its staleness, "
        "nobody more than 3 steps ahead of the slowest");
    return 0;
  });
}
