# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Checks how a run over processes with a fault ends: within SECONDS, with an exit status other than 0, with the
# expected text, and with no process left.
# Usage: cmake -D "RUN=mpirun;-n;3" -D RANKS=3 -D PROGRAM=mpi_faults -D FAULT=throw -D "EXPECTED=regular expressions"
#              -D TIMES=how often each must match -D SECONDS=10 [-D "VARIABLES=WORLD_SIZE=3"]
#              [-D "OTHERS=:;-n;1;program that does not use MPI"] -P mpi_faults.cmake
cmake_minimum_required(VERSION 3.25)
string(TIMESTAMP start "%s")
execute_process(COMMAND ${CMAKE_COMMAND} -E env ${VARIABLES} ${RUN} ${PROGRAM} ${FAULT} 3000 ${OTHERS}
  RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out TIMEOUT 60)
string(TIMESTAMP end "%s")
math(EXPR took "${end} - ${start}")
string(REPLACE ";" "," out "${out}")  # a match is one element of a list
foreach(text IN LISTS EXPECTED)
  string(REGEX MATCHALL "${text}" found "${out}")
  list(LENGTH found times)
  if(times LESS TIMES OR (FAULT MATCHES "^(delay|throw|leave)$" AND times GREATER TIMES))
    message(FATAL_ERROR "${FAULT}: ${times} times instead of ${TIMES}: \"${text}\", in:\n${out}")
  endif()
endforeach()
# With Open MPI's recovery of jobs mpirun returns 0 whatever its ranks do. A rank that is paused is no fault.
if(FAULT STREQUAL "pause")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${FAULT}: the run ended with ${result}:\n${out}")
  endif()
elseif(result EQUAL 0 AND NOT FAULT STREQUAL "kill_undetected")
  message(FATAL_ERROR "${FAULT}: the run ended with status 0:\n${out}")
endif()
if(took GREATER SECONDS)
  message(FATAL_ERROR "${FAULT}: ended after ${took} s, not within ${SECONDS} (${result}):\n${out}")
endif()

# Each rank has printed its process id. The launcher may return a moment before the last one is gone.
string(REGEX MATCHALL "pid [0-9]+" pids "${out}")
list(LENGTH pids count)
if(NOT FAULT MATCHES "^(wrong_size|foreign)$" AND NOT count EQUAL RANKS)
  message(FATAL_ERROR "${FAULT}: ${count} of ${RANKS} ranks have started:\n${out}")
endif()
list(TRANSFORM pids REPLACE "pid " "")
foreach(attempt RANGE 20)
  set(survivors "")
  foreach(pid IN LISTS pids)
    execute_process(COMMAND readlink /proc/${pid}/exe OUTPUT_VARIABLE program ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(program STREQUAL PROGRAM)
      list(APPEND survivors ${pid})
    endif()
  endforeach()
  if(survivors STREQUAL "")
    break()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.1)
endforeach()
if(NOT survivors STREQUAL "")
  message(FATAL_ERROR "${FAULT}: the launcher has ended, and these processes have not: ${survivors}:\n${out}")
endif()
message("${FAULT}: ${result} after ${took} s:\n${out}")
