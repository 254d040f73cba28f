// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run by mpirun: every process runs every test. What ends in a process killed is in mpi_faults.cpp.
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<mpi, cpu> && TransportOn<mpi, emulated> && Abandons<mpi>);
static_assert(AnySource<mpi>);

namespace {

constexpr auto launch = [](int, const auto& f, std::chrono::milliseconds deadline) {
  mpi::launch(f, {.deadline = deadline});
};
constexpr mpi::options soon{.deadline = 30s};

int world_size() {
  static const int size = [] {
    int n = 0;
    mpi::launch([&](mpi link) { n = link.size(); }, soon);
    return n;
  }();
  return size;
}

std::vector<std::byte> word(std::size_t n) { return std::vector<std::byte>(n, std::byte{7}); }
to<cpu> send(int peer, const std::vector<std::byte>& x) { return {peer, {x.data(), x.size()}}; }
from<cpu> receive(int peer, std::vector<std::byte>& x) { return {peer, {x.data(), x.size()}}; }
void exchange(const mpi& link, std::vector<to<cpu>> out, std::vector<from<cpu>> in) {
  link.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
}

// f on each rank, the last of which is stuck until rank 0 has given up: support::crevasse, for
// processes. A file tells it, named after the launcher that started both.
template <class F>
void with_last_stuck(const mpi& link, const F& f) {
  const auto gave_up = std::filesystem::temp_directory_path() / text("cordee-mpi-", ::getppid());
  if (link.rank() == link.size() - 1) {
    for (int k = 0; k < 6000 && !std::filesystem::exists(gave_up); ++k)
      std::this_thread::sleep_for(10ms);
    std::filesystem::remove(gave_up);
  }
  try {
    f();
  } catch (const error&) {
    if (link.rank() == 0) std::ofstream{gave_up};
    throw;
  }
}

}  // namespace

TEST_CASE("mpi keeps the laws of transports") {
  CHECK(transport_laws(launch, {.ranks = {world_size()}, .impatience = 4s}) == "");
}

TEST_CASE("mpi: every exact reducer keeps its laws") {
  const reducer_law_options here{.ranks = {world_size()}};
  CHECK(reducer_laws<mpi>([](auto link) { return ring{link}; }, here, launch) == "");
  CHECK(reducer_laws<mpi>([](auto link) { return tree{link}; }, here, launch) == "");
  CHECK(reducer_laws<mpi>([](auto link) { return butterfly{link}; }, here, launch) == "");
  CHECK(reducer_laws<mpi>([](auto link) { return halving{link}; }, here, launch) == "");
  CHECK(reducer_laws<mpi>([](auto link) { return server{link}; }, here, launch) == "");
}

TEST_CASE("mpi: an asynchronous server hears everybody, in lockstep as the mean, and goes last") {
  double x = 0;
  int ranks = 0;
  for (const auto& [how, pushes] :
       {std::pair{asynchronous{.softsync = 1, .bound = 0}, 50}, {asynchronous{.bound = 2}, 50}}) {
    mpi::launch(
        [&, how = how, pushes = pushes](mpi link) {
          const server at{link, how};
          double told = 0;
          x = ranks = link.size();
          const message<double, cpu, 1> all{nullptr, {&x, 1}, {span_on<double, cpu>{&told, 1}}, {}};
          at.begin(all, cpu::stream{});
          for (int k = 0; k < pushes * (how.bound == 0 ? 1 : link.rank() + 1); ++k) {
            x += link.rank();
            at.mix(all, moment{}, cpu::stream{});
          }
        },
        soon);
    if (how.bound == 0) CHECK(x == ranks + 50 * (ranks - 1) / 2.0);
  }
}

TEST_CASE("mpi: the server says for which worker the others wait in vain") {
  const int last = world_size() - 1;
  const std::string said = complaint([&] {
    mpi::launch(
        [&](mpi link) {
          const server at{link, asynchronous{.bound = 0}};
          double x = 0, told = 0;
          const message<double, cpu, 1> all{nullptr, {&x, 1}, {span_on<double, cpu>{&told, 1}}, {}};
          at.begin(all, cpu::stream{});
          with_last_stuck(link, [&] { at.mix(all, moment{}, cpu::stream{}); });
        },
        {.deadline = 3s});
  });
  CHECK(contains(
      said, text("rank 0: rank 0 waited 3000 ms for rank ", last, " to send on lane 2").c_str()));
  CHECK(contains(said, "(the parameter server, version "));
}

TEST_CASE("mpi: who waits for any source names those that are due") {
  const int last = world_size() - 1;
  const std::string said = complaint([&] {
    mpi::launch(
        [&](mpi link) {
          if (link.rank() == 0) (void)link.lane(request_lane).next(std::array{last});
        },
        soon);
  });
  CHECK(contains(said, text("rank 0 waits for rank ", last, " to send on lane 2, but").c_str()));
}

TEST_CASE("mpi: a message that is too short or too long names both ranks, the lane and bytes") {
  for (const std::size_t said : {12u, 20u, 100'000u, 10'000'000u}) {
    const std::string complaint_here = complaint([&] {
      mpi::launch(
          [&](mpi link) {
            const auto mine = word(said);
            auto heard = word(16);
            if (link.rank() == 0) exchange(link.lane(2), {send(1, mine)}, {});
            if (link.rank() == 1) exchange(link.lane(2), {}, {receive(0, heard)});
          },
          soon);
    });
    CHECK(contains(
        complaint_here,
        text("rank 1 expects 16 bytes from rank 0 on lane 2, which sends ", said).c_str()));
  }
}

TEST_CASE("mpi: the first failure is thrown on every rank, and what is not an exception too") {
  CHECK(complaint([] {
          mpi::launch(
              [](mpi link) {
                auto x = word(4);
                if (link.rank() == 1) throw std::runtime_error("rank one's own words");
                exchange(link, {}, {receive(1, x)});
              },
              soon);
        }) == "rank 1: rank one's own words");
  CHECK(contains(complaint([] {
                   mpi::launch(
                       [](mpi link) {
                         if (link.rank() == 0) throw 7;
                       },
                       soon);
                 }),
                 "rank 0: threw something"));
}

TEST_CASE("mpi: after a stall every rank tells what it was waiting for") {
  // Rank 0 waits for the last one, who is stuck; whoever is between waits for rank 0.
  const int last = world_size() - 1;
  const std::string said = complaint([&] {
    mpi::launch(
        [&](mpi link) {
          auto x = word(8);
          const auto words = [&] { return text("bucket ", link.rank()); };
          const errand here(words);
          with_last_stuck(link,
                          [&] { exchange(link, {}, {receive(link.rank() == 0 ? last : 0, x)}); });
        },
        {.deadline = 3s});
  });
  CHECK(contains(said, " waited 3000 ms for rank "));
  CHECK(contains(said, text("for rank ", last, " to send 8 bytes on lane 0").c_str()));
  for (int rank = 0; rank <= last; ++rank) {
    CHECK(contains(said, text("(bucket ", rank, ")").c_str()));
    CHECK(contains(said, text("rank ", rank, " ").c_str()));
  }
}

TEST_CASE(
    "mpi: a rank that waits itself is not to blame: the report ends with the one that does not") {
  // Each waits for the next one, but who is between comes late: rank 0 loses patience first.
  const int last = world_size() - 1;
  const std::string said = complaint([&] {
    mpi::launch(
        [&](mpi link) {
          auto x = word(8);
          if (link.rank() > 0 && link.rank() < last) std::this_thread::sleep_for(500ms);
          with_last_stuck(link, [&] {
            if (link.rank() < last) exchange(link, {}, {receive(link.rank() + 1, x)});
          });
        },
        {.deadline = 3s});
  });
  CHECK(contains(said, " waited 3000 ms for rank "));
  CHECK(contains(said, text("\n  look first at rank ", last, ": no word of a wait from").c_str()));
}

TEST_CASE("mpi: a word that was never heard ends the run with an error on the rank it was for") {
  int rank = -1;
  const std::string said = complaint([&] {
    mpi::launch(
        [&](mpi link) {
          rank = link.rank();
          const auto mine = word(12);
          auto own = word(12);
          if (rank == 0) exchange(link.lane(2), {send(1, mine), send(0, mine)}, {receive(0, own)});
        },
        soon);
  });
  if (rank == 1) CHECK(contains(said, "rank 0 said 12 bytes to rank 1 on lane 2"));
  if (rank != 1) CHECK(said.empty());
}

TEST_CASE("mpi: misuse is refused: no such lane, no such peer") {
  mpi::launch(
      [](mpi link) {
        auto x = word(1);
        CHECK_THROWS_AS((void)link.lane(4), misuse);
        CHECK_THROWS_AS(exchange(link, {send(link.size(), x)}, {}), misuse);
        CHECK_THROWS_AS(exchange(link, {}, {receive(-1, x)}), misuse);
      },
      soon);
}

TEST_CASE("mpi: what lies in a GPU's memory is staged") {
  mpi::launch(
      [](mpi link) {
        const int p = link.size(), next = (link.rank() + 1) % p, before = (link.rank() + p - 1) % p;
        auto mine = word(1000), heard = word(1000), own = word(10), none = word(0);
        mine[999] = static_cast<std::byte>(link.rank());
        const std::array out{to<emulated>{next, {mine.data(), mine.size()}},
                             to<emulated>{link.rank(), {own.data(), own.size()}}};
        auto back = word(10);
        back[9] = std::byte{0};
        const std::array in{from<emulated>{link.rank(), {back.data(), back.size()}},
                            from<emulated>{before, {heard.data(), heard.size()}}};
        link.exchange(std::span<const to<emulated>>(out), std::span<const from<emulated>>(in),
                      emulated::stream{});
        CHECK(heard[999] == static_cast<std::byte>(before));
        CHECK(back == own);
      },
      soon);
}

TEST_CASE("mpi: a rank has its share of the cores as workers") {
  const int cores = detail::machine::of(0, std::array{detail::machine_card::mine()}).cores;
  mpi::launch([&](mpi link) { CHECK(cpu{}.workers() == std::max(1, cores / link.size())); }, soon);
}
