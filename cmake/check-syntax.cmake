# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Launcher of a compiler that is called with -fsyntax-only: makes the empty output that a build tool waits for. Usage:
#
#   cmake -P check-syntax.cmake -- <compiler> <option>... -o <output> ...
cmake_minimum_required(VERSION 3.25)
set(command)
set(output)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 4 ${last})
  if(CMAKE_ARGV${i} STREQUAL "-o")
    math(EXPR next "${i} + 1")
    set(output ${CMAKE_ARGV${next}})
  endif()
  list(APPEND command "${CMAKE_ARGV${i}}")
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the compiler's status is ${result}")
endif()
file(WRITE ${output} "")
