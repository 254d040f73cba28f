# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails unless every C++ file is formatted as by clang-format 16. (Compares its output with the files, because its
# --dry-run reports the closing comments of `namespace cordee::inline` as errors.)
cmake_minimum_required(VERSION 3.25)
if(NOT CLANG_FORMAT)
  message("skipped: clang-format-16 is not installed")
  return()
endif()
foreach(folder include src tests examples benchmarks)
  file(GLOB_RECURSE files ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp)
  list(APPEND sources ${files})
endforeach()
list(REMOVE_ITEM sources ${ROOT}/examples/quick_start.cpp)  # formatted by hand, for the README
# One run for all files; only if its output differs, one run per file, to report which.
execute_process(COMMAND ${CLANG_FORMAT} ${sources} OUTPUT_VARIABLE formatted)
execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${sources} OUTPUT_VARIABLE text)
if(formatted STREQUAL text)
  return()
endif()
set(unformatted "")
foreach(source IN LISTS sources)
  execute_process(COMMAND ${CLANG_FORMAT} ${source} OUTPUT_VARIABLE formatted)
  file(READ ${source} text)
  if(NOT formatted STREQUAL text)
    string(APPEND unformatted "\n  ${source}")
  endif()
endforeach()
if(unformatted)
  message(FATAL_ERROR "run clang-format-16 -i on${unformatted}")
endif()
