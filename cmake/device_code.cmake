# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Kernels copy numbers in loops. Usage: cmake -D ROOT=<folder that contains cordee/> -P device_code.cmake
#
# Of std::copy_n, called in a kernel, nvcc 13.0 keeps nothing and says nothing: the numbers are those of registers that
# were never written. Algorithms of the standard library that write are therefore refused where kernels are.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${ROOT}/cordee ${ROOT}/cordee/ops/gpu/*.hpp
  ${ROOT}/cordee/ops/engines/tensor_core/*.hpp ${ROOT}/cordee/device/*.cuh)
if(NOT headers)
  message(FATAL_ERROR "no kernels below ${ROOT}/cordee")
endif()
foreach(header IN LISTS headers)
  file(STRINGS ${ROOT}/cordee/${header} lines)
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(line MATCHES "std::(ranges::)?(copy|fill|swap_ranges|generate|iota)(_n|_backward)?\\(")
      message(SEND_ERROR "${header}:${number}: in a kernel nvcc drops it: write a loop")
    endif()
  endforeach()
endforeach()
