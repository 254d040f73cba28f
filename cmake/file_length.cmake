# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Checks that no file of C++ or CUDA has more than MOST lines (350 by default), lines of docstrings alone not counted.
# Usage: cmake -D ROOT=<the repository> [-D MOST=N] -P file_length.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT DEFINED MOST)
  set(MOST 350)
endif()
set(one_list tests/support/cuda_on_host.cpp)  # a double of each function of the CUDA runtime
foreach(folder include src tests benchmarks examples)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.?pp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.cuh)
  list(REMOVE_ITEM files ${one_list})
  foreach(file IN LISTS files)
    file(READ ${ROOT}/${file} text)
    string(REGEX REPLACE "\n *///[^\n]*" "" text "${text}")
    string(REGEX REPLACE "[^\n]+" "" ends "${text}")
    string(LENGTH "${ends}" count)
    if(count GREATER MOST)
      message(SEND_ERROR "${file} has ${count} lines, more than ${MOST}: split it where a noun hides")
    endif()
  endforeach()
endforeach()
