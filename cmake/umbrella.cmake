# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Checks the umbrellas. cordee.hpp includes the headers whose names users write; those include the internal ones.
# A header that is included, directly or not, neither by cordee.hpp nor by a component's header is an error.
# Usage: cmake -D ROOT=<folder that contains cordee/> -P umbrella.cmake
cmake_minimum_required(VERSION 3.25)
set(component "^cordee/(testing/|ops/gpu/|ops/engines/(cudnn|tensor_core|onednn)/|ops/engines/reference/gpu\\.hpp|device/cuda_|comm/(mpi|nccl)[./])")
file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/cordee/*.hpp ${ROOT}/cordee/*.cuh)

# reach(HEADER): adds HEADER and all headers that it includes, directly or not, to `reached`.
set(reached)
function(reach header)
  if(header IN_LIST reached OR NOT EXISTS ${ROOT}/${header})
    return()
  endif()
  list(APPEND reached ${header})
  file(STRINGS ${ROOT}/${header} lines REGEX "^ *#include <cordee/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^ *#include <([^>]+)>.*" "\\1" included "${line}")
    reach(${included})
  endforeach()
  set(reached ${reached} PARENT_SCOPE)
endfunction()
reach(cordee/cordee.hpp)
foreach(header IN LISTS headers)
  if(header MATCHES "${component}" OR header MATCHES "^cordee/(cuda|thrust)[.]cuh$")
    reach(${header})
  endif()
endforeach()
foreach(header IN LISTS headers)
  if(NOT header IN_LIST reached)
    message(SEND_ERROR "nothing includes ${header}: neither cordee.hpp nor a component's header")
  endif()
endforeach()

# cuda.cuh itself includes every kernel for GPUs and every header that needs nvcc.
file(GLOB headers RELATIVE ${ROOT} ${ROOT}/cordee/ops/gpu/*.hpp ${ROOT}/cordee/*/*.cuh)
file(READ ${ROOT}/cordee/cuda.cuh umbrella)
foreach(header IN LISTS headers)
  string(FIND "${umbrella}" "#include <${header}>" position)
  if(position EQUAL -1)
    message(SEND_ERROR "cuda.cuh does not include ${header}")
  endif()
endforeach()
