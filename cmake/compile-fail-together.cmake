# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What compile-fail.cmake does for one case, for all cases of SOURCE with two runs of the compiler. The first compiles
# SOURCE without a case, which must succeed. The second compiles the unit UNIT: the text of SOURCE once for each case,
# in a namespace of its own and with its macro defined, under the file name "case NAME". An error that a case causes is
# reported with that name: where the error is, as the place that required the template in which it is, or in the name of a
# type of that namespace. Each case must cause an error, and its SENTENCE must be in the messages of that case. Usage:
#
#   cmake -D COMPILER=... -D SOURCE=<file> -D INCLUDE=<folder> -D ROOT=<repository> -D PRELUDE=<header or empty>
#         -D "CASES=<macro>;..." -D "SENTENCES=<sentence>;..." -D UNIT=<output file> -P compile-fail-together.cmake
cmake_minimum_required(VERSION 3.25)
set(command ${COMPILER} -std=c++20 -fsyntax-only -fno-diagnostics-show-caret -pthread -I${INCLUDE} -I${ROOT})
if(PRELUDE)
  list(APPEND command -include ${PRELUDE})
endif()
execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the positive control does not compile:\n${output}")
endif()

# Includes under an #if belong to cases that are compiled alone.
file(READ ${SOURCE} text)
string(REGEX REPLACE "\n#if[^\n]*(\n#include [^\n]+)+\n#endif" "" text "${text}")
string(REGEX MATCHALL "\n#include [^\n]+" includes "${text}")
list(JOIN includes "" includes)
string(REGEX REPLACE "\n#include [^\n]+" "\n" text "${text}")
set(unit "${includes}\n")
foreach(case IN LISTS CASES)
  string(APPEND unit
    "#define ${case} 1\nnamespace refused_${case} {\n#line 1 \"case ${case}\"\n${text}}\n#undef ${case}\n")
endforeach()
file(WRITE ${UNIT} "${unit}")
execute_process(COMMAND ${command} ${UNIT} RESULT_VARIABLE result ERROR_VARIABLE output)

# The lines of each case: from one that names it to one that names another. (Characters that are special in lists of
# CMake are replaced in messages and sentences alike.)
foreach(text IN ITEMS output SENTENCES)
  string(REGEX REPLACE "[][]" "|" ${text} "${${text}}")
endforeach()
string(REPLACE ";" "," lines "${output}")
string(REPLACE "\n" ";" lines "${lines}")
set(current none)
foreach(line IN LISTS lines)
  if(line MATCHES "(case |refused_)([A-Z0-9_]+)(:[0-9]|::)")
    set(current ${CMAKE_MATCH_2})
  endif()
  string(APPEND messages_${current} "${line}\n")
endforeach()
foreach(case sentence IN ZIP_LISTS CASES SENTENCES)
  string(FIND "${messages_${case}}" "${sentence}" position)
  if(NOT messages_${case} MATCHES "error: ")
    message(SEND_ERROR "${case} compiles, but must be rejected")
  elseif(position EQUAL -1)
    message(SEND_ERROR "${case} is rejected without the message \"${sentence}\":\n${messages_${case}}")
  else()
    message(STATUS "${case} is rejected: ${sentence}")
  endif()
endforeach()
