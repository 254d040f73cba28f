// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/simulated_messages.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("simulated: reductions that the rank's device counts take time") {
  simulated::options o = slow;
  o.seconds_per_reduced_byte = 0.5;
  CHECK(ends(
            2,
            [](auto comm) {
              if (comm.rank() == 0)
                add(2, static_cast<float*>(nullptr), static_cast<float*>(nullptr),
                    comm.device().make_stream());
              comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
            },
            o) == std::vector{6.0, 6.0});
}

TEST_CASE("simulated: two fibers of a rank have their own clocks, and a rank one port") {
  CHECK(ends(2, [](auto comm) {
          if (comm.rank() == 1) {
            receive(comm, 0);
            return receive(comm.duplicate(1), 0);
          }
          comm.concurrently([&] { send(comm.duplicate(1), 1); },
                            [&] {
                              comm.compute(1);
                              send(comm, 1);
                            });
        }) == std::vector{4.0, 6.0});
}

TEST_CASE("simulated: rounds and reductions of a task count for what precedes and joins it") {
  simulated::options o = slow;
  o.seconds_per_reduced_byte = 0.5;
  const auto exchange = [](const simulated& comm) {
    comm.rank() == 0 ? send(comm, 1) : receive(comm, 0);
  };
  const auto reduce = [](const simulated& comm) {
    add(2, static_cast<float*>(nullptr), static_cast<float*>(nullptr), comm.device().make_stream());
  };
  const simulation s = simulated::launch(
      2,
      [&](simulated comm) {
        exchange(comm);
        reduce(comm);
        auto task = comm.start_task([&] {
          exchange(comm.duplicate(1));
          CHECK(comm.now() == 2 + 4 + 2);
        });
        reduce(comm);
        task.join();
        CHECK(comm.now() == 2 + 4 + 4);
        exchange(comm);
      },
      o);
  CHECK(s.rounds == 3);
  CHECK(s.path.seconds == 12);
}

TEST_CASE("simulated: fibers that have ended and were joined leave no state behind") {
  for (const int tasks : {1, 100}) {
    const simulation s = simulated::launch(
        3,
        [&](simulated comm) {
          for (int k = 0; k < tasks; ++k) {
            const double begin = comm.now();
            auto task = comm.start_task([&] {
              CHECK(comm.now() == begin);
              comm.rank() == 0 ? send(comm, 1) : comm.rank() == 1 ? receive(comm, 0) : void();
            });
            comm.compute(comm.rank() == 2 ? 1 : 0);
            task.join();
            comm.concurrently([&] { comm.compute(0.5); }, [&] { comm.compute(0.25); });
          }
        },
        slow);
    CHECK(s.fibers == 6);
    CHECK(s.path.seconds == 2.5 * tasks);
    CHECK(s.rounds == static_cast<std::uint64_t>(tasks));
  }
}

TEST_CASE("simulated: a task is joined once: a second join() is an error, and no copy has it too") {
  static_assert(!std::is_copy_constructible_v<simulated::task> &&
                !std::is_copy_assignable_v<simulated::task>);
  const auto error_of = [](const auto& join) {
    return error_message([&] {
      simulated::launch(2, [&](simulated comm) {
        auto task = comm.start_task([=] { comm.rank() == 0 ? receive(comm, 1) : send(comm, 0); });
        CHECK(task.joinable());
        join(comm, task);
      });
    });
  };
  const char* const again = "join() of a task that has been joined or was never started";
  CHECK(error_of([](auto&, auto& t) {
          t.join();
          CHECK(!t.joinable());
        }) == "");
  CHECK(contains(error_of([](auto&, auto& t) {
                   t.join();
                   t.join();
                 }),
                 again));
  CHECK(contains(error_of([](auto&, auto& t) {
                   simulated::task moved = std::move(t);
                   moved.join();
                   t.join();
                 }),
                 again));
  CHECK(contains(error_of([](auto&, auto&) { simulated::task{}.join(); }), again));
  CHECK(contains(error_of([](auto& comm, auto& t) {
                   comm.concurrently([&] { t.join(); }, [&] { t.join(); });
                 }),
                 "two fibers join one task"));
}

TEST_CASE("simulated: fibers of a rank use its ports in the order of time, not in that of calls") {
  double sent = 0, received = 0;
  CHECK(ends(3, [&](auto comm) {
          const auto wait_and_send = [&] {  // to rank 2: from 1 on, and from 10 on
            comm.compute(1);
            auto task = comm.start_task([&] { send(comm.duplicate(1), 2); });
            comm.compute(9);
            send(comm, 2);
            sent = comm.now();
            task.join();
          };
          if (comm.rank() == 0) return wait_and_send();
          if (comm.rank() == 1) {
            comm.compute(4);
            return send(comm.duplicate(1), 2);
          }
          auto task = comm.start_task([&] {
            receive(comm.duplicate(1), 0);
            receive(comm.duplicate(1), 1);
            received = comm.now();
          });
          receive(comm, 0);
          task.join();
        }) == std::vector{12.0, 6.0, 12.0});
  CHECK(sent == 12);
  CHECK(received == 6);
}

TEST_CASE("simulated: of messages to two fibers the one that was sent first arrives first") {
  double first = 0;
  CHECK(ends(3, [&](auto comm) {
          if (comm.rank() < 2) {
            comm.compute(comm.rank() == 0 ? 10 : 4);
            return send(comm.duplicate(comm.rank()), 2);
          }
          auto task = comm.start_task([&] {
            receive(comm.duplicate(1), 1);
            first = comm.now();
          });
          receive(comm, 0);
          task.join();
        }) == std::vector{12.0, 6.0, 12.0});
  CHECK(first == 6);
}

TEST_CASE("simulated: that no rank can go on is an error which names the ranks") {
  CHECK(contains(
      error_message(
          [] { simulated::launch(3, [](auto comm) { receive(comm, (comm.rank() + 1) % 3); }); }),
      "rank 0 waits for rank 1 to send 8 bytes on context 0, and all wait for one another"));
  CHECK(contains(error_message([] {
                   simulated::launch(3, [](auto comm) {
                     if (comm.rank() < 2) receive(comm, comm.rank() + 1);
                   });
                 }),
                 "rank 0 waits for rank 1 to send 8 bytes on context 0, which waits in turn for "
                 "rank 2, but rank 2 has left the run"));
}

TEST_CASE("simulated: other sizes, messages that nobody receives and impossible peers are errors") {
  CHECK(contains(error_message([] {
                   simulated::launch(2, [](auto comm) {
                     comm.rank() == 0 ? send(comm, 1, 7) : receive(comm, 0, 8);
                   });
                 }),
                 "rank 1 expects 8 bytes from rank 0 on context 0, which sends 7"));
  CHECK(contains(error_message([] {
                   simulated::launch(2, [](auto comm) {
                     if (comm.rank() == 0) send(comm, 1);
                   });
                 }),
                 "rank 0 sent 8 bytes to rank 1 on context 0, which has left the run"));
  CHECK(contains(error_message([] { simulated::launch(2, [](auto comm) { send(comm, 2); }); }),
                 "simulated: no such peer: rank 2"));
  CHECK(contains(error_message([] { simulated::launch(0, [](auto) {}); }), "at least one rank"));
}

TEST_CASE("simulated: the first failure is thrown, also of a second fiber's rank") {
  CHECK(error_message([] {
          simulated::launch(3, [](auto comm) {
            if (comm.rank() != 1) return receive(comm, 1);
            comm.concurrently([&] { receive(comm.duplicate(1), 0); },
                              [] { throw std::runtime_error("out of cheese"); });
          });
        }) == "rank 1: out of cheese");
}

TEST_CASE("simulated: what holds of failures holds with contention") {
  const simulated::options shared{.contended = torus{{0, 8}, {3, 1, 1}}};
  CHECK(contains(error_message([&] {
                   simulated::launch(
                       3, [](auto comm) { receive(comm, (comm.rank() + 1) % 3); }, shared);
                 }),
                 "rank 0 waits for rank 1 to send 8 bytes on context 0, and all wait"));
  CHECK(contains(error_message([&] {
                   simulated::launch(
                       2,
                       [](auto comm) {
                         if (comm.rank() == 0) send(comm, 1);
                       },
                       shared);
                 }),
                 "rank 0 waits for rank 1 to receive 8 bytes on context 0, but rank 1 has left"));
  CHECK(contains(error_message([&] {
                   simulated::launch(
                       2,
                       [](auto comm) { comm.rank() == 0 ? send(comm, 1, 7) : receive(comm, 0, 8); },
                       shared);
                 }),
                 "rank 1 expects 8 bytes from rank 0 on context 0, which sends 7"));
}

TEST_CASE("simulated: options outside their ranges are refused by name before a rank runs") {
  const auto thrown = [](const simulated::options& o) {
    return error_message([&] {
      simulated::launch(
          2, [](simulated) { CHECK(false); }, o);
    });
  };
  for (const double bad : {-1.0, HUGE_VAL, double(NAN)}) {
    const link_parameters late{.latency = bad}, narrow{.bandwidth = bad};
    CHECK(contains(thrown({.network = {.link = late}}), "ideal_network: .link.latency is "));
    CHECK(contains(thrown({.network = {.inside = narrow}}), "ideal_network: .inside.bandwidth is"));
    CHECK(contains(thrown({.seconds_per_reduced_byte = bad}), ".seconds_per_reduced_byte is "));
    CHECK(contains(thrown({.contended = torus{.link = late}}), "torus: .link.latency is "));
  }
  CHECK(contains(thrown({.network = {.link = {0, 0}}}), "ideal_network: .link.bandwidth is 0"));
  CHECK(contains(thrown({.network = {.ranks_per_node = -1}}), ".ranks_per_node is -1"));
  CHECK(contains(thrown({.contended = fat_tree{.gpus_per_node = 0}}), ".gpus_per_node is 0"));
}
