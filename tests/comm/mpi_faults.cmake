# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# How a run over processes ends: within SECONDS, with an exit status that is not 0, and with the culprit's name.
# Usage: cmake -D "RUN=mpirun;-n;3" -D PROGRAM=mpi_faults -D FAULT=throw -D "SENTENCE=regular expressions"
#              -D RANKS_SAY=how many must say each -D SECONDS=10 [-D "VARIABLES=WORLD_SIZE=3"] -P mpi_faults.cmake
cmake_minimum_required(VERSION 3.25)
string(TIMESTAMP start "%s")
execute_process(COMMAND ${CMAKE_COMMAND} -E env ${VARIABLES} ${RUN} ${PROGRAM} ${FAULT} 3000
  RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out TIMEOUT 60)
string(TIMESTAMP end "%s")
math(EXPR took "${end} - ${start}")
foreach(sentence IN LISTS SENTENCE)
  string(REGEX MATCHALL "${sentence}" found "${out}")
  list(LENGTH found times)
  if(times LESS RANKS_SAY)
    message(FATAL_ERROR "${FAULT}: said ${times} times of ${RANKS_SAY}: \"${sentence}\", in:\n${out}")
  endif()
endforeach()
if(result EQUAL 0)
  message(FATAL_ERROR "${FAULT}: the run ended well:\n${out}")
elseif(took GREATER SECONDS)
  message(FATAL_ERROR "${FAULT}: ended after ${took} s, not within ${SECONDS} (${result}):\n${out}")
endif()
message("${FAULT}: ${result} after ${took} s:\n${out}")
