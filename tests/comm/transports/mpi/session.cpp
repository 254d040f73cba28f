// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/mpi/session.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

TEST_CASE("mpi_session: start initializes MPI, whose rank agrees with the launcher's environment") {
  const rank_assignment self = detail::comm::mpi_session::start();
  int initialized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  MPI_Query_thread(&level);
  CHECK(initialized == 1);
  CHECK(level >= MPI_THREAD_SERIALIZED);
  CHECK(self.rank < self.size);
  CHECK(detail::comm::mpi_session::start() == self);
  const auto launched =
      detail::comm::rank_from_environment([](const char* name) { return std::getenv(name); });
  REQUIRE(launched.has_value());  // this is run by mpirun
  CHECK(*launched == self);
}

TEST_CASE("mpi_expects: an error has the call's name and MPI's text") {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::string message;
  try {
    detail::comm::mpi_expects(MPI_Send(nullptr, 0, MPI_BYTE, 1 << 20, 0, MPI_COMM_WORLD),
                              "MPI_Send");
  } catch (const error& e) {
    message = e.what();
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK(message.find("mpi: MPI_Send: ") == 0);
  CHECK(message.size() > 20);
  detail::comm::mpi_expects(MPI_SUCCESS, "nothing");
}
