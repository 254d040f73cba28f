# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The formatter decides: clang-format 16, over everything that is C++. (Its output is compared: its own
# --dry-run trips over the closing comments of `namespace cordee::inline`.)
cmake_minimum_required(VERSION 3.25)
if(NOT CLANG_FORMAT)
  message("skipped: clang-format-16 is not installed")
  return()
endif()
foreach(folder include tests examples benchmarks)
  file(GLOB_RECURSE found ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp)
  list(APPEND sources ${found})
endforeach()
list(REMOVE_ITEM sources ${ROOT}/examples/quick_start.cpp)  # laid out by hand, for the README
# All at once, which starts the formatter once; one by one where that differs, to say where.
execute_process(COMMAND ${CLANG_FORMAT} ${sources} OUTPUT_VARIABLE formatted)
execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${sources} OUTPUT_VARIABLE text)
if(formatted STREQUAL text)
  return()
endif()
set(wrong "")
foreach(source IN LISTS sources)
  execute_process(COMMAND ${CLANG_FORMAT} ${source} OUTPUT_VARIABLE formatted)
  file(READ ${source} text)
  if(NOT formatted STREQUAL text)
    string(APPEND wrong "\n  ${source}")
  endif()
endforeach()
if(wrong)
  message(FATAL_ERROR "run clang-format-16 -i on${wrong}")
endif()
