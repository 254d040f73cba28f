// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/mpi/session.hpp>

using namespace cordee;

TEST_CASE("session: MPI runs from the first question on, and the launcher says the same") {
  const standing here = detail::mpi_session::begin();
  int begun = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&begun);
  MPI_Query_thread(&level);
  CHECK(begun == 1);
  CHECK(level >= MPI_THREAD_SERIALIZED);
  CHECK(here.rank < here.size);
  CHECK(detail::mpi_session::begin() == here);
  const auto told = told_standing([](const char* name) { return std::getenv(name); });
  REQUIRE(told.has_value());  // this is run by mpirun
  CHECK(*told == here);
}

TEST_CASE("session: what MPI says of a call that failed is thrown with the call's name") {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::string said;
  try {
    detail::mpi_expects(MPI_Send(nullptr, 0, MPI_BYTE, 1 << 20, 0, MPI_COMM_WORLD), "MPI_Send");
  } catch (const error& e) {
    said = e.what();
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK(said.find("mpi: MPI_Send: ") == 0);
  CHECK(said.size() > 20);
  detail::mpi_expects(MPI_SUCCESS, "nothing");
}
