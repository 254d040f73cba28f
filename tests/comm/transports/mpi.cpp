// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run by mpirun: every process runs every test. Runs in which a process is killed are in
// mpi_faults.cpp.
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<mpi, cpu> && TransportOn<mpi, emulated> && Abortable<mpi>);
static_assert(AnySource<mpi>);

namespace {

constexpr auto launch = [](int, const auto& f, std::chrono::milliseconds deadline) {
  mpi::launch(f, {.deadline = deadline});
};
constexpr mpi::options short_deadline{.deadline = 30s};

int world_size() {
  static const int size = [] {
    int n = 0;
    mpi::launch([&](mpi comm) { n = comm.size(); }, short_deadline);
    return n;
  }();
  return size;
}

// The rank whose message has the reports of all after a stall.
bool is_rank_0() { return detail::comm::mpi_session::start().rank == 0; }

std::vector<std::byte> data_of(std::size_t n) { return std::vector<std::byte>(n, std::byte{7}); }
send_op<cpu> send(int peer, const std::vector<std::byte>& x) {
  return {peer, {x.data(), x.size()}};
}
recv_op<cpu> receive(int peer, std::vector<std::byte>& x) { return {peer, {x.data(), x.size()}}; }
void exchange(const mpi& comm, std::vector<send_op<cpu>> out, std::vector<recv_op<cpu>> in) {
  comm.exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                cpu::stream{});
}

// f() on each rank, the last of which is stuck until rank 0 has failed, as support::stuck_rank for
// threads. Rank 0 creates a file, named after the launcher's process, which started both.
template <class F>
void with_last_stuck(const mpi& comm, const F& f) {
  const auto failed = std::filesystem::temp_directory_path() / concat("cordee-mpi-", ::getppid());
  if (comm.rank() == comm.size() - 1) {
    for (int k = 0; k < 6000 && !std::filesystem::exists(failed); ++k)
      std::this_thread::sleep_for(10ms);
    std::filesystem::remove(failed);
  }
  try {
    f();
  } catch (const error&) {
    if (comm.rank() == 0) std::ofstream{failed};
    throw;
  }
}

}  // namespace

TEST_CASE("mpi: it keeps the laws of transports") {
  CHECK(transport_laws(launch, {.ranks = {world_size()}, .impatience = 2s}) == "");
}

TEST_CASE("mpi: every exact reducer keeps the laws of reducers") {
  const reducer_law_options options{.ranks = {world_size()}};
  // The ring also over a transport without fused add, and in rounds; the others as one type.
  CHECK(reducer_laws<mpi>([](auto comm) { return ring{comm}; }, options, launch) == "");
  const auto laws = [&](const auto& make) {
    return support::reducer_violations<mpi>(make, options, launch);
  };
  CHECK(laws([](auto comm) { return tree{comm}; }) == "");
  CHECK(laws([](auto comm) { return butterfly{comm}; }) == "");
  CHECK(laws([](auto comm) { return halving_doubling{comm}; }) == "");
  CHECK(laws([](auto comm) { return server{comm}; }) == "");
}

TEST_CASE(
    "mpi: an asynchronous server serves all ranks, with bound 0 as the exact mean, and ends last") {
  double x = 0;
  int ranks = 0;
  for (const auto& [how, pushes] :
       {std::pair{asynchronous{.softsync = 1, .staleness_bound = 0}, 50},
        {asynchronous{.staleness_bound = 2}, 50}}) {
    mpi::launch(
        [&, how = how, pushes = pushes](mpi comm) {
          const server at{comm, how};
          double pulled = 0;
          x = ranks = comm.size();
          const bucket_view<double, cpu, 1> all{
              nullptr, {&x, 1}, {span_on<double, cpu>{&pulled, 1}}, {}};
          at.initialize(all, cpu::stream{});
          for (int k = 0; k < pushes * (how.staleness_bound == 0 ? 1 : comm.rank() + 1); ++k) {
            x += comm.rank();
            at.mix(all, step_info{}, cpu::stream{});
          }
        },
        short_deadline);
    if (how.staleness_bound == 0) CHECK(x == ranks + 50 * (ranks - 1) / 2.0);
  }
}

TEST_CASE("mpi: an error of the server names the worker that the others wait for") {
  const int last = world_size() - 1;
  const std::string message = error_message([&] {
    mpi::launch(
        [&](mpi comm) {
          const server at{comm, asynchronous{.staleness_bound = 0}};
          double x = 0, pulled = 0;
          const bucket_view<double, cpu, 1> all{
              nullptr, {&x, 1}, {span_on<double, cpu>{&pulled, 1}}, {}};
          at.initialize(all, cpu::stream{});
          with_last_stuck(comm, [&] { at.mix(all, step_info{}, cpu::stream{}); });
        },
        {.deadline = 3s});
  });
  CHECK(contains(
      message,
      concat("rank 0: rank 0 waited 3000 ms for rank ", last, " to send on context 2").c_str()));
  CHECK(contains(message, "(the parameter server, version "));
}

TEST_CASE("mpi: an error of probe_any names the expected ranks") {
  const int last = world_size() - 1;
  const std::string message = error_message([&] {
    mpi::launch(
        [&](mpi comm) {
          if (comm.rank() == 0) (void)comm.duplicate(request_context).probe_any(std::array{last});
        },
        short_deadline);
  });
  CHECK(contains(message,
                 concat("rank 0 waits for rank ", last, " to send on context 2, but").c_str()));
}

TEST_CASE(
    "mpi: a message of another size is an error with both ranks, both sizes and the context") {
  for (const std::size_t sent : {12u, 20u, 100'000u, 10'000'000u}) {
    const std::string message = error_message([&] {
      mpi::launch(
          [&](mpi comm) {
            const auto own = data_of(sent);
            auto received = data_of(16);
            if (comm.rank() == 0) exchange(comm.duplicate(2), {send(1, own)}, {});
            if (comm.rank() == 1) exchange(comm.duplicate(2), {}, {receive(0, received)});
          },
          short_deadline);
    });
    CHECK(contains(
        message,
        concat("rank 1 expects 16 bytes from rank 0 on context 2, which sends ", sent).c_str()));
  }
}

TEST_CASE(
    "mpi: launch throws the first failure on every rank, also one that is not a std::exception; "
    "the "
    "lowest rank reports it") {
  int rank = 0;
  std::string cause;
  const std::string message = error_message([&] {
    try {
      mpi::launch(
          [&](mpi comm) {
            rank = comm.rank();
            auto x = data_of(4);
            if (rank == 1) throw std::runtime_error("cause on rank 1");
            exchange(comm, {}, {receive(1, x)});
          },
          short_deadline);
    } catch (const aborted& e) {
      cause = e.what();
    }
  });
  CHECK(message == (rank == 0 ? "rank 1: cause on rank 1" : ""));
  CHECK(cause ==
        (rank == 0 ? "" : concat("rank ", rank, " ended with the run: rank 1: cause on rank 1")));
  CHECK(contains(error_message([] {
                   mpi::launch(
                       [](mpi comm) {
                         if (comm.rank() == 0) throw 7;
                       },
                       short_deadline);
                 }),
                 "rank 0: threw something"));
}

TEST_CASE("mpi: the error of a stall has a line with the wait of every rank") {
  // Rank 0 waits for the last rank, which is stuck; the others wait for rank 0.
  const int last = world_size() - 1;
  const std::string message = error_message([&] {
    mpi::launch(
        [&](mpi comm) {
          auto x = data_of(8);
          const auto describe = [&] { return concat("bucket ", comm.rank()); };
          const detail::comm::error_context context(describe);
          with_last_stuck(comm,
                          [&] { exchange(comm, {}, {receive(comm.rank() == 0 ? last : 0, x)}); });
        },
        {.deadline = 3s});
  });
  CHECK(contains(message, " waited 3000 ms for rank "));
  if (!is_rank_0()) return;  // the others' messages have the first wait alone
  CHECK(contains(message, concat("for rank ", last, " to send 8 bytes on context 0").c_str()));
  for (int rank = 0; rank <= last; ++rank) {
    CHECK(contains(message, concat("(bucket ", rank, ")").c_str()));
    CHECK(contains(message, concat("rank ", rank, " ").c_str()));
  }
}

TEST_CASE("mpi: the suspected rank is the end of the chain of waits") {
  // Each rank waits for the next one, the middle ones from later on: rank 0 reaches its deadline
  // first.
  const int last = world_size() - 1;
  const std::string message = error_message([&] {
    mpi::launch(
        [&](mpi comm) {
          auto x = data_of(8);
          if (comm.rank() > 0 && comm.rank() < last) std::this_thread::sleep_for(500ms);
          with_last_stuck(comm, [&] {
            if (comm.rank() < last) exchange(comm, {}, {receive(comm.rank() + 1, x)});
          });
        },
        {.deadline = 3s});
  });
  CHECK(contains(message, " waited 3000 ms for rank "));
  if (is_rank_0())
    CHECK(contains(message, concat("\n  suspected: rank ", last, " (reported no wait)").c_str()));
}

TEST_CASE("mpi: a message that was never received is an error on its receiver") {
  int rank = -1;
  const std::string message = error_message([&] {
    mpi::launch(
        [&](mpi comm) {
          rank = comm.rank();
          const auto sent = data_of(12);
          auto received = data_of(12);
          if (rank == 0)
            exchange(comm.duplicate(2), {send(1, sent), send(0, sent)}, {receive(0, received)});
        },
        short_deadline);
  });
  if (rank == 1) CHECK(contains(message, "rank 0 sent 12 bytes to rank 1 on context 2"));
  if (rank != 1) CHECK(message.empty());
}

TEST_CASE("mpi: no such context and no such peer are usage errors") {
  mpi::launch(
      [](mpi comm) {
        auto x = data_of(1);
        CHECK_THROWS_AS((void)comm.duplicate(4), usage_error);
        CHECK_THROWS_AS(exchange(comm, {send(comm.size(), x)}, {}), usage_error);
        CHECK_THROWS_AS(exchange(comm, {}, {receive(-1, x)}), usage_error);
      },
      short_deadline);
}

TEST_CASE("mpi: each rank has its share of the cores as workers") {
  const int cores =
      detail::comm::node_info::of(0, std::array{detail::comm::host_info::local()}).cores;
  mpi::launch([&](mpi comm) { CHECK(cpu{}.workers() == std::max(1, cores / comm.size())); },
              short_deadline);
}

TEST_CASE("mpi: a deadline of 0 or less is refused on every rank") {
  CHECK_THROWS_WITH_AS(mpi::launch([](mpi) {}, {.deadline = 0ms}),
                       doctest::Contains("mpi::options{.deadline}"), usage_error);
  mpi::launch([](mpi) {}, {.deadline = std::chrono::milliseconds::max()});
}
