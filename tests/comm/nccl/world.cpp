// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks come together, and what they say when they cannot.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/world.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::nccl_world, detail::guest, detail::line;
using support::complaint, support::contains;

namespace {

// A rank by its launcher's word, with a port that everybody was told, or a file.
struct told {
  standing mine;
  int at;
  [[nodiscard]] standing here() const { return mine; }
  [[nodiscard]] int port() const { return at; }
  void publish(const meeting_point&) const {}
  [[nodiscard]] std::optional<meeting_point> find() const {
    return meeting_point{at, 0, {"127.0.0.1"}};
  }
};
struct told_a_file : by_file {
  standing mine;
  [[nodiscard]] standing here() const { return mine; }
};

int free_port() { return detail::doorstep(0).port(); }

// What each of these complains of, which come together at once.
template <class Where>
std::vector<std::string> complaints(const std::vector<Where>& ranks,
                                    std::chrono::milliseconds deadline) {
  std::vector<std::string> said(ranks.size());
  std::vector<std::thread> team;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    team.emplace_back(
        [&, i] { said[i] = complaint([&] { nccl_world(ranks[i], deadline, -1).leave(); }); });
  for (std::thread& t : team) t.join();
  return said;
}

}  // namespace

TEST_CASE(
    "ranks meet by an address that all were told, and by a file, whatever an earlier run left") {
  const int port = free_port();
  for (const std::string& said :
       complaints<told>({{{0, 3}, port}, {{1, 3}, port}, {{2, 3}, port}}, 20s))
    CHECK(said == "");

  const support::folder here;
  const std::string path = here.file("meet");
  by_file{path}.publish({free_port(), 99, {"127.0.0.1"}});
  for (const std::string& said : complaints<told_a_file>({{{path}, {0, 2}}, {{path}, {1, 2}}}, 20s))
    CHECK(said == "");
}

TEST_CASE("a wrong number of ranks is an error on all of them, with both numbers") {
  const int port = free_port();
  for (const std::string& said : complaints<told>({{{0, 2}, port}, {{1, 3}, port}}, 10s)) {
    CHECK(contains(said, "it says that it is rank 1 of 3"));
    CHECK(contains(said, "but rank 0 says that it is rank 0 of 2"));
  }
}

TEST_CASE("a rank that does not come is named, and so is a rank 0 that does not") {
  const int port = free_port();
  CHECK(contains(complaints<told>({{{0, 2}, port}}, 500ms).front(),
                 "waited 500 ms for rank 1 to come to port"));
  CHECK(contains(complaints<told>({{{1, 2}, port}}, 500ms).front(),
                 "rank 1 waited 500 ms for rank 0 to answer at port and machine"));
}

TEST_CASE("a rank that dies while the others begin is named") {
  const int port = free_port();
  std::thread dying([&] {
    line way;
    while (way.over()) way = guest::arrive({"127.0.0.1"}, port, {0, 1, 2});
  });
  const auto said = complaints<told>({{{0, 2}, port}}, 20s);
  dying.join();
  CHECK(contains(said.front(), "rank 1: its process has ended without a word"));
}

TEST_CASE("a port that is in use is an error with the remedy") {
  const detail::doorstep taken(0);
  CHECK(contains(complaints<told>({{{0, 2}, taken.port()}}, 1s).front(),
                 "in use; say another MASTER_PORT"));
}

TEST_CASE("a rank has its share of its machine's cores as workers") {
  const int port = free_port();
  std::atomic<int> workers{0};
  std::vector<std::thread> team;
  for (int rank = 0; rank < 2; ++rank)
    team.emplace_back([&, rank] {
      nccl_world mine(told{{rank, 2}, port}, 20s, -1);
      workers += mine.workers();
      mine.leave();
    });
  for (std::thread& t : team) t.join();
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  CHECK(workers == 2 * std::max(1, CPU_COUNT(&cores) / 2));
}
