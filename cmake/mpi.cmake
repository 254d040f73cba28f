# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds an MPI: sets cordee_found_mpi, with the target MPI::MPI_CXX without MPI's own C++ bindings.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.0 QUIET COMPONENTS CXX)
set(cordee_found_mpi OFF)
if(TARGET MPI::MPI_CXX)
  set(cordee_found_mpi ON)
endif()
set(cordee_mpi_absent "an MPI, version 3 or later, which was not found: install libopenmpi-dev or libmpich-dev")
