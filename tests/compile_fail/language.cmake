# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# A compiler that does not know C++20, or is told another standard, reports one sentence and stops. Usage:
#   cmake -D COMPILER=... -D ROOT=<repository> -P language.cmake
cmake_minimum_required(VERSION 3.25)
# refused(SENTENCE COMPILER ARGUMENTS...)
function(refused sentence)
  foreach(header cordee.hpp comm/transports/zeromq.hpp)
    execute_process(COMMAND ${ARGN} -fsyntax-only -I${ROOT}/include -x c++ ${ROOT}/include/cordee/${header}
      RESULT_VARIABLE result ERROR_VARIABLE output)
    string(REGEX MATCHALL "error: " errors "${output}")
    list(LENGTH errors count)
    if(result EQUAL 0 OR NOT output MATCHES "${sentence}" OR count GREATER 2)
      message(SEND_ERROR "${ARGN}: ${count} errors, without or beside \"${sentence}\":\n${output}")
    endif()
  endforeach()
endfunction()
refused("it needs C[+][+]20: compile with -std=c[+][+]20" ${COMPILER} -std=c++17)
find_program(OLD_CLANG NAMES clang++-15 clang++-14)
if(OLD_CLANG)
  refused("it needs clang 16 or later, or g[+][+] 12" ${OLD_CLANG} -std=c++20)
endif()
