// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/mpi/notices.hpp>

using namespace cordee;
using namespace std::chrono_literals;

TEST_CASE("notices: everybody hears the first failure, what the others were at, and who has left") {
  const standing here = detail::mpi_session::begin();
  const int last = here.size - 1;
  MPI_Comm channel;
  MPI_Comm_dup(MPI_COMM_WORLD, &channel);
  {
    detail::mpi_notices notices(here, channel);
    CHECK_FALSE(notices.over());
    if (here.rank == last) {
      notices.fail(std::string(5000, 'x'), true);  // more than a notice has room for
      notices.fail("an echo", false);
    }
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!notices.first.happened() && std::chrono::steady_clock::now() < until) notices.attend();
    CHECK(notices.first.culprit() == last);
    CHECK(notices.first.stalled());
    CHECK(notices.first.cause().find("xxxx") != std::string::npos);
    CHECK_FALSE(notices.is_silent(here.rank));
    notices.first.report(here.rank, text("was ", here.rank));
    notices.leave();
    while (!notices.over() && std::chrono::steady_clock::now() < until) notices.attend();
    CHECK(notices.over());
    CHECK(notices.absent().empty());
    for (int rank = 0; rank <= last; ++rank)
      CHECK(notices.first.report(rank) == text("was ", rank));
    std::this_thread::sleep_for(120ms);
    for (int rank = 0; rank <= last; ++rank) CHECK(notices.is_silent(rank) == (rank != here.rank));
  }
  MPI_Comm_free(&channel);
}
