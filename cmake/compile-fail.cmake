# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# One case of a file must not compile and must say why; without a case the file must compile, so that
# the refusal is not some other mistake.
cmake_minimum_required(VERSION 3.25)
set(command ${COMPILER} -std=c++20 -fsyntax-only -pthread -I${INCLUDE} -I${ROOT})
if(CASE STREQUAL "control")
  execute_process(COMMAND ${command} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the positive control does not compile:\n${said}")
  endif()
  return()
endif()
execute_process(COMMAND ${command} -D${CASE} ${SOURCE} RESULT_VARIABLE result ERROR_VARIABLE said)
if(result EQUAL 0)
  message(FATAL_ERROR "${CASE} compiles, but must be refused")
endif()
string(FIND "${said}" "${SENTENCE}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${CASE} is refused without the sentence \"${SENTENCE}\":\n${said}")
endif()
