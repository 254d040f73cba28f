# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a kernel uses more registers than its line KERNEL(name, registers, ...) records, or any stack memory. Usage:
#
#   cmake -D NVCC=<compiler> -D SOURCE=<a .cu of such lines> -D INCLUDE=<parent of cordee/> -P resources.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NVCC} -std=c++20 -gencode=arch=compute_90,code=sm_90 --extended-lambda
    --expt-relaxed-constexpr -D CORDEE_HAS_CUDA=1 -I ${INCLUDE} -cubin -Xptxas=-v ${SOURCE} -o resources.cubin
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status)
  message(FATAL_ERROR "${output}")
endif()
file(STRINGS ${SOURCE} lines REGEX "^KERNEL[(]")
if(NOT lines)
  message(FATAL_ERROR "${SOURCE} contains no KERNEL lines")
endif()
foreach(line IN LISTS lines)
  string(REGEX MATCH "^KERNEL[(]([a-z0-9_]+), ([0-9]+)," line "${line}")
  set(name ${CMAKE_MATCH_1})
  set(recorded ${CMAKE_MATCH_2})
  if(NOT output MATCHES "properties for ${name}\n *([0-9]+) bytes stack frame, ([0-9]+) bytes spill[^\n]*\n[^\n]*Used ([0-9]+) registers")
    message(SEND_ERROR "${name} was not compiled:\n${output}")
  elseif(CMAKE_MATCH_1 OR CMAKE_MATCH_2)
    message(SEND_ERROR "${name} uses ${CMAKE_MATCH_1} bytes of stack")
  elseif(CMAKE_MATCH_3 GREATER recorded)
    message(SEND_ERROR "${name} uses ${CMAKE_MATCH_3} registers; recorded are ${recorded}")
  else()
    message(STATUS "${name}: ${CMAKE_MATCH_3} registers of ${recorded}")
  endif()
endforeach()
