# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# cordee.hpp includes every header of the library, but for those of components: kernels for grids (ops/grid/)
# come with the device that runs them, by cuda.cuh.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/cordee/*.hpp)
list(FILTER headers EXCLUDE REGEX
  "^cordee/(cordee\\.hpp|testing/|ops/grid/|device/cuda_|ops/convolution_onednn\\.hpp|comm/(mpi|nccl)[./])")
file(READ ${ROOT}/cordee/cordee.hpp umbrella)
foreach(header IN LISTS headers)
  string(FIND "${umbrella}" "#include <${header}>" at)
  if(at EQUAL -1)
    message(SEND_ERROR "cordee.hpp does not include ${header}")
  endif()
endforeach()

# And cuda.cuh every kernel for grids and every header that needs nvcc.
file(GLOB headers RELATIVE ${ROOT} ${ROOT}/cordee/ops/grid/*.hpp ${ROOT}/cordee/*/*.cuh)
file(READ ${ROOT}/cordee/cuda.cuh umbrella)
foreach(header IN LISTS headers)
  string(FIND "${umbrella}" "#include <${header}>" at)
  if(at EQUAL -1)
    message(SEND_ERROR "cuda.cuh does not include ${header}")
  endif()
endforeach()
