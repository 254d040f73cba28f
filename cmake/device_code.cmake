# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Kernels copy numbers in loops. Usage: cmake -D ROOT=<folder that contains cordee/> -P device_code.cmake
#
# Of std::copy_n, called in a kernel, nvcc 13.0 keeps nothing and says nothing: the numbers are those of registers that
# were never written. Algorithms of the standard library that write are therefore refused where kernels are: in every
# header with a function for a device, or with a body of a pass over segments.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${ROOT}/cordee ${ROOT}/cordee/*.hpp ${ROOT}/cordee/*.cuh)
set(with_kernels 0)
foreach(header IN LISTS headers)
  file(READ ${ROOT}/cordee/${header} text)
  if(NOT text MATCHES "CORDEE_(HOST_)?DEVICE|operator\\(\\)\\(At ")
    continue()
  endif()
  math(EXPR with_kernels "${with_kernels} + 1")
  file(STRINGS ${ROOT}/cordee/${header} lines)
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(line MATCHES "std::(ranges::)?(copy|fill|swap_ranges|generate|iota)(_n|_backward)?\\(")
      message(SEND_ERROR "${header}:${number}: in a kernel nvcc drops it: write a loop")
    endif()
  endforeach()
endforeach()
if(with_kernels EQUAL 0)
  message(FATAL_ERROR "no kernels below ${ROOT}/cordee")
endif()
