# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Where an MPI is: cordee_finds_mpi, with the target MPI::MPI_CXX less MPI's own C++ bindings.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.0 QUIET COMPONENTS CXX)
set(cordee_finds_mpi OFF)
if(TARGET MPI::MPI_CXX)
  set(cordee_finds_mpi ON)
endif()
set(cordee_mpi_absent "an MPI, version 3 or later, which was not found: install libopenmpi-dev or libmpich-dev")
