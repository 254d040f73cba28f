# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Makes a test of each ```cpp block of the PAGES: OUTPUT is a C++ file with a test case for each, whose lines are the
# page's in messages; a block that begins with #include is a file with its own test cases. A page without a block is an
# error.
cmake_minimum_required(VERSION 3.25)
set(all "#include <array>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/quantize_network.hpp>
#include <cordee/testing/dataset_laws.hpp>
#include <cordee/testing/gossip_laws.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/schedule_laws.hpp>

using namespace cordee;
")
foreach(page IN LISTS PAGES)
  file(READ ${page} rest)
  cmake_path(RELATIVE_PATH page BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
  set(line 1)
  set(count 0)
  while(TRUE)
    string(FIND "${rest}" "\n```cpp\n" begin)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + 8")
    string(SUBSTRING "${rest}" 0 ${begin} before)
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(REGEX REPLACE "[^\n]" "" before "${before}")
    string(LENGTH "${before}" lines)
    math(EXPR line "${line} + ${lines}")
    math(EXPR count "${count} + 1")
    string(FIND "${rest}" "```\n" end)
    string(SUBSTRING "${rest}" 0 ${end} code)
    if(code MATCHES "^#include ")
      string(APPEND all "\n#line ${line} \"${name}\"\n${code}")
    else()
      string(APPEND all "\nTEST_CASE(\"${name}, example ${count}\") {\n#line ${line} \"${name}\"\n${code}}\n")
    endif()
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(REGEX REPLACE "[^\n]" "" lines "${code}")
    string(LENGTH "${lines}" lines)
    math(EXPR line "${line} + ${lines}")
  endwhile()
  if(count EQUAL 0)
    message(FATAL_ERROR "${name} has no example: a block of ```cpp")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${all}")
