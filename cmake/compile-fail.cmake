# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles SOURCE with the macro CASE defined and fails unless the compiler rejects it with the message SENTENCE.
# CASE "control" defines no macro and must compile, so that no other error can cause the rejections. PRELUDE, if it is not
# empty, is a precompiled header.
cmake_minimum_required(VERSION 3.25)
set(command ${COMPILER} -std=c++20 -fsyntax-only -pthread -I${INCLUDE} -I${ROOT})
if(PRELUDE)
  list(APPEND command -include ${PRELUDE})
endif()
if(CASE STREQUAL "control")
  execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the positive control does not compile:\n${output}")
  endif()
  return()
endif()
execute_process(COMMAND ${command} -D${CASE} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${CASE} compiles, but must be rejected")
endif()
string(FIND "${output}" "${SENTENCE}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${CASE} is rejected without the message \"${SENTENCE}\":\n${output}")
endif()
