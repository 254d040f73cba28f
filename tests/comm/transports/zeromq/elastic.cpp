// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Elastic runs of processes: ranks that are killed, stopped, end by an error of their own, and
// join.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/transports/zeromq.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

// Exact sums over the ranks, one after the other. Throws where one is wrong.
void sum_rounds(const zeromq& comm, int rounds, const auto& before) {
  for (int k = 0; k < rounds; ++k) {
    before(k);
    std::array<double, 2> x{comm.rank() + 1.0, static_cast<double>(k)};
    allreduce_host(comm, x, reduce_op::sum);
    const double p = comm.size();
    if (x[0] != p * (p + 1) / 2 || x[1] != p * k) throw usage_error("a wrong sum");
  }
}

// Of processes, which all of them see.
class shared_pids {
 public:
  shared_pids()
      : memory_(static_cast<std::atomic<pid_t>*>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) throw error("no shared memory");
  }
  shared_pids(const shared_pids&) = delete;
  shared_pids& operator=(const shared_pids&) = delete;
  ~shared_pids() { ::munmap(memory_, size); }
  std::atomic<pid_t>& operator[](int rank) const { return memory_[rank]; }

 private:
  static constexpr std::size_t size = 4096;
  std::atomic<pid_t>* memory_;
};

long long ms_since(clock_type::time_point start) { return (clock_type::now() - start) / 1ms; }

// "2 of 3, then 1 of 2": what a process was in each of its worlds.
struct trace {
  std::string text{};
  int worlds = 0;
  clock_type::time_point last_round{};  // of the first world
  long long took = 0;                   // ms from then until the second world
  void note(const zeromq& comm) {
    text += concat(worlds++ > 0 ? ", then " : "", comm.rank(), " of ", comm.size());
    if (worlds == 2) took = ms_since(last_round);
  }
  // The text, or how long it took where that is longer.
  [[nodiscard]] std::string within(long long ms) const {
    return took > ms ? concat("it took ", took, " ms") : text;
  }
};

void expect_launched(int ranks) { ::setenv("WORLD_SIZE", concat(ranks).c_str(), 1); }
constexpr zeromq::options with(elastic e, std::chrono::milliseconds deadline = 30s) {
  return {.deadline = deadline, .elastic = std::move(e)};
}
void write_file(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw error("cannot write " + path);
  std::fputs(text.c_str(), file);
  std::fclose(file);
}
void wait_for(const std::string& path) {
  for (const auto start = clock_type::now(); ::access(path.c_str(), R_OK) != 0;) {
    if (clock_type::now() - start > 60s) throw error("waited for " + path);
    std::this_thread::sleep_for(5ms);
  }
}

// A process of a run that sums in each of its worlds. before(world, k), the first of which is 1,
// precedes round k.
trace run_worlds(int rounds, const zeromq::options& o, const auto& before) {
  trace t;
  zeromq::launch(
      [&](zeromq comm) {
        t.note(comm);
        sum_rounds(comm, rounds, [&](int k) {
          if (t.worlds == 1) t.last_round = clock_type::now();
          before(t.worlds, k);
        });
      },
      o);
  return t;
}

}  // namespace

TEST_CASE("elastic: without an event it is one world, in which all ranks end") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto texts = fork_ranks(
        ranks, [](int) { return run_worlds(20, with({.smallest = 1}), [](int, int) {}).text; });
    for (int r = 0; r < ranks; ++r)
      CHECK(texts[static_cast<std::size_t>(r)] == concat(r, " of ", ranks));
  }
}

TEST_CASE("elastic: the run goes on without a rank that was killed, whichever it was, at once") {
  for (const auto& [ranks, killed] :
       {std::array{2, 1}, {3, 0}, {3, 1}, {3, 2}, {5, 0}, {5, 3}, {8, 0}, {8, 7}}) {
    CAPTURE(ranks);
    CAPTURE(killed);
    const auto texts = fork_ranks(ranks, [&](int rank) {
      return run_worlds(20, with({.smallest = 1}),
                        [&](int world, int k) {
                          if (world == 1 && k == 7 && rank == killed) ::kill(::getpid(), SIGKILL);
                        })
          .within(2000);
    });
    for (int r = 0; r < ranks; ++r)
      CHECK(texts[static_cast<std::size_t>(r)] ==
            (r == killed
                 ? std::string("signal 9")
                 : concat(r, " of ", ranks, ", then ", r - (r > killed), " of ", ranks - 1)));
  }
}

TEST_CASE("elastic: ranks are lost one after the other, rank 0 each time") {
  const auto texts = fork_ranks(5, [](int rank) {
    return run_worlds(10, with({.smallest = 2}),
                      [&](int world, int k) {
                        if (k == 4 && world == rank + 1 && rank < 3) ::kill(::getpid(), SIGKILL);
                      })
        .text;
  });
  CHECK(texts[2] == "signal 9");
  CHECK(texts[3] == "3 of 5, then 2 of 4, then 1 of 3, then 0 of 2");
  CHECK(texts[4] == "4 of 5, then 3 of 4, then 2 of 3, then 1 of 2");
}

TEST_CASE("elastic: too few ranks, or no more than half without rank 0, end with a sentence") {
  const auto after_loss = [](int ranks, const std::vector<int>& killed, int smallest) {
    const shared_pids pids;
    return fork_ranks(ranks, [&](int rank) {
      pids[rank] = ::getpid();
      zeromq::launch(
          [&](zeromq comm) {
            sum_rounds(comm, 10, [&](int k) {
              if (k != 4 || comm.size() != ranks || rank != killed.back()) return;
              for (const int r : killed) ::kill(pids[r], SIGKILL);  // itself last
            });
          },
          with({.smallest = smallest}, 4s));
      return std::string("went on");
    });
  };
  auto texts = after_loss(3, {1}, 3);
  for (const std::size_t r : {0, 2})
    CHECK(contains_all(texts[r], {"elastic: 2 ranks are left (without 127.0.0.1:",
                                  "which has ended), fewer than elastic{.smallest = 3}",
                                  "the last world ended by rank 1"}));
  texts = after_loss(5, {0, 2, 3}, 1);
  CAPTURE(texts[1]);
  CAPTURE(texts[4]);
  for (const std::size_t r : {1, 4})
    CHECK(contains_all(texts[r], {"elastic: 2 ranks are left of the 5 of generation 1",
                                  "more than half must go on, or half with its rank 0"}));
  texts = after_loss(2, {0}, 1);
  CHECK(contains(texts[1], "elastic: 1 rank is left of the 2 of generation 1"));
  texts = after_loss(4, {3, 2}, 1);
  CHECK(texts[0] + texts[1] == "went onwent on");
  texts = after_loss(4, {3, 0}, 1);
  for (const std::size_t r : {1, 2}) CHECK(contains(texts[r], "2 ranks are left of the 4"));
}

TEST_CASE(
    "elastic: a rank that is stopped is lost within the deadline and 2 s, and later refused") {
  for (const int stopped : {0, 2}) {
    CAPTURE(stopped);
    const folder files;
    const auto as_rank = [&](bool stops) {
      return run_worlds(10, with({.smallest = 2}, 2s),
                        [&](int world, int k) {
                          if (world == 2 && k == 5) write_file(files.file("goes on"), "");
                          if (world == 2 && k > 5) std::this_thread::sleep_for(300ms);
                          if (world == 1 && k == 4 && stops) ::raise(SIGSTOP);
                        })
          .within(4000);
    };
    const auto texts = fork_ranks(3, [&](int rank) {
      ::alarm(30);
      if (rank != stopped) return as_rank(false);
      const pid_t child = ::fork();  // for which fork_ranks does not wait
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // or it would stay stopped
        std::string text;
        try {
          text = as_rank(true);
        } catch (const std::exception& e) {
          text = e.what();
        }
        write_file(files.file("refused"), text);
        std::_Exit(0);
      }
      wait_for(files.file("goes on"));
      ::kill(child, SIGCONT);
      ::waitpid(child, nullptr, 0);
      return first_line(files.file("refused"), 1000);
    });
    for (int r = 0; r < 3; ++r) {
      const std::string& text = texts[static_cast<std::size_t>(r)];
      CAPTURE(text);
      if (r == stopped)
        CHECK(contains(text, "refuses this process: the run has lost it, and is at generation 2"));
      else
        CHECK(text == concat(r, " of 3, then ", r - (r > stopped), " of 2"));
    }
  }
}

TEST_CASE("elastic: a rank that ends by an error of its own ends alone") {
  const auto texts = fork_ranks(3, [](int rank) {
    return run_worlds(10, with({.smallest = 2}),
                      [&](int, int k) {
                        if (k == 4 && rank == 1) throw error("its disk is full");
                      })
        .text;
  });
  CHECK(texts == std::vector<std::string>{"0 of 3, then 0 of 2", "error: its disk is full",
                                          "2 of 3, then 1 of 2"});
}

TEST_CASE("elastic: an error of the program on all ranks ends the run, and all name it") {
  const auto ends_by = [](std::chrono::milliseconds deadline, const auto& body) {
    return fork_ranks(2, [&](int) {
      trace t;
      try {
        zeromq::launch(
            [&](zeromq comm) {
              t.note(comm);
              body(comm);
            },
            with({.smallest = 2}, deadline));
      } catch (const error& e) {
        return concat(t.worlds, " worlds, ", e.what());
      }
      return t.text;
    });
  };
  const std::string end = "4 worlds, elastic: 4 worlds of the same ranks have failed: rank ";
  for (const std::string& text : ends_by(30s, [](const zeromq& comm) {
         std::vector<double> x(static_cast<std::size_t>(comm.rank() + 1));
         allreduce_host(comm, x, reduce_op::sum);  // of other sizes
       })) {
    CAPTURE(text);
    CHECK(contains_all(text, {end.c_str(), "bytes"}));
  }
  for (const std::string& text : ends_by(500ms, [](const zeromq& comm) {
         std::array<std::byte, 8> x{};
         const std::array in{recv_op<cpu>{1 - comm.rank(), {x.data(), x.size()}}};
         comm.exchange({}, std::span<const recv_op<cpu>>(in), cpu::stream{});  // which none sends
       })) {
    CAPTURE(text);
    CHECK(contains_all(text, {end.c_str(), "waited 500 ms"}));
  }
}

TEST_CASE("elastic: new ranks join a run that trains, and go on when the first ones are lost") {
  const folder files;
  const std::string path = files.file("run");
  const auto texts = fork_ranks(5, [&](int rank) {
    ::alarm(30);
    trace t;
    bool had_five = false;
    expect_launched(2);
    if (rank >= 2) wait_for(path);
    if (rank >= 3) wait_for(files.file(concat("has ", rank)));
    zeromq::launch(
        [&](zeromq comm) {
          t.note(comm);
          had_five = had_five || comm.size() == 5;
          if (comm.rank() == 0) write_file(files.file(concat("has ", comm.size())), "");
          sum_rounds(comm, !had_five ? 1'000'000 : 20, [&](int k) {
            if (comm.size() == 5 && k == 10 && rank == 0) ::kill(::getpid(), SIGKILL);
          });
        },
        with({.smallest = 2, .rendezvous = path, .joins = rank >= 2, .settle = 0ms}));
    return t.text;
  });
  CHECK(texts == std::vector<std::string>{
                     "signal 9", "1 of 2, then 1 of 3, then 1 of 4, then 1 of 5, then 0 of 4",
                     "2 of 3, then 2 of 4, then 2 of 5, then 1 of 4",
                     "3 of 4, then 3 of 5, then 2 of 4", "4 of 5, then 3 of 4"});
}
