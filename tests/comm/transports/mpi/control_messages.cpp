// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every rank of mpirun's processes runs it.
#include <algorithm>

#include <doctest/doctest.h>

#include <cordee/comm/transports/mpi/control_messages.hpp>

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;

TEST_CASE("mpi_control_messages: all ranks receive the first failure, all reports and all leaves") {
  const rank_assignment self = detail::comm::mpi_session::start();
  const int last = self.size - 1;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  {
    detail::comm::mpi_control_messages control(self, comm);
    const auto polled = [&](const auto& ready) {
      return detail::comm::poll_until([&] { return control.poll(), ready(); }, 30s, 1ms);
    };
    CHECK(control.remaining() != "");
    if (self.rank == last) {
      control.fail(std::string(5000, 'x'), true);  // longer than a control message
      control.fail("a consequence", false);
    }
    CHECK(polled([&] { return control.first_failure.happened(); }));
    CHECK(control.first_failure.failed_rank() == last);
    CHECK(control.first_failure.stalled());
    CHECK(control.first_failure.cause().find("xxxx") != std::string::npos);
    control.first_failure.add_report(self.rank, concat("was ", self.rank));
    control.leave();
    CHECK(polled([&] { return control.remaining().empty(); }));
    CHECK(control.any_left());
    for (int rank = 0; rank <= last; ++rank) {
      CHECK(control.first_failure.report_of(rank) == concat("was ", rank));
      CHECK(control.has_left(rank) == (rank != self.rank));
    }
  }
  MPI_Comm_free(&comm);
}

TEST_CASE("mpi_control_messages: a text without an end is cut at the length of a message") {
  const rank_assignment self = detail::comm::mpi_session::start();
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  {
    detail::comm::mpi_control_messages control(self, comm);
    const auto polled = [&](const auto& ready) {
      return detail::comm::poll_until([&] { return control.poll(), ready(); }, 30s, 1ms);
    };
    std::string message(2004, 'y');
    message.replace(0, 4, 4, '\0');  // the kind: failed
    if (self.rank == 0)
      for (int peer = 1; peer < self.size; ++peer)
        MPI_Send(message.data(), static_cast<int>(message.size()), MPI_BYTE, peer, 0, comm);
    else
      CHECK(polled([&] { return control.first_failure.happened(); }));
    if (self.rank > 0) CHECK(control.first_failure.cause() == "rank 0: " + std::string(1999, 'y'));
    control.leave();
    CHECK(polled([&] { return control.remaining().empty(); }));
  }
  MPI_Comm_free(&comm);
}
