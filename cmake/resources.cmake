# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# No kernel takes more registers than its line says, KERNEL(name, registers, ...), nor any stack. Usage:
#
#   cmake -D NVCC=<compiler> -D SOURCE=<a .cu of such lines> -D INCLUDE=<folder that holds cordee/> -P resources.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NVCC} -std=c++20 -gencode=arch=compute_90,code=sm_90 --extended-lambda
    --expt-relaxed-constexpr -D CORDEE_HAS_CUDA=1 -I ${INCLUDE} -cubin -Xptxas=-v ${SOURCE} -o resources.cubin
  RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(status)
  message(FATAL_ERROR "${said}")
endif()
file(STRINGS ${SOURCE} lines REGEX "^KERNEL[(]")
if(NOT lines)
  message(FATAL_ERROR "${SOURCE} has no kernels")
endif()
foreach(line IN LISTS lines)
  string(REGEX MATCH "^KERNEL[(]([a-z0-9_]+), ([0-9]+)," line "${line}")
  set(name ${CMAKE_MATCH_1})
  set(recorded ${CMAKE_MATCH_2})
  if(NOT said MATCHES "properties for ${name}\n *([0-9]+) bytes stack frame, ([0-9]+) bytes spill[^\n]*\n[^\n]*Used ([0-9]+) registers")
    message(SEND_ERROR "${name} was not compiled:\n${said}")
  elseif(CMAKE_MATCH_1 OR CMAKE_MATCH_2)
    message(SEND_ERROR "${name} keeps ${CMAKE_MATCH_1} bytes on a stack")
  elseif(CMAKE_MATCH_3 GREATER recorded)
    message(SEND_ERROR "${name} takes ${CMAKE_MATCH_3} registers, and took ${recorded}")
  else()
    message(STATUS "${name}: ${CMAKE_MATCH_3} registers of ${recorded}")
  endif()
endforeach()
