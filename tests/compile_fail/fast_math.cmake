# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Every header is refused under compiler options that remove tests for NaN. Usage:
#   cmake -D COMPILER=... -D ROOT=<repository> -P fast_math.cmake
cmake_minimum_required(VERSION 3.25)
foreach(options "" -O3 -fno-math-errno "-Ofast -fno-fast-math" -ffast-math -Ofast -ffinite-math-only "-O2 -ffast-math")
  separate_arguments(arguments UNIX_COMMAND "${options}")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${ROOT}/include ${arguments}
    -x c++ ${ROOT}/include/cordee/core/config.hpp RESULT_VARIABLE result ERROR_VARIABLE output)
  if(options MATCHES "(-ffast-math|-Ofast|-ffinite-math-only)$")
    if(result EQUAL 0)
      message(SEND_ERROR "${options}: compiles, but must be refused")
    elseif(NOT output MATCHES "let the compiler remove the tests for NaN and infinity")
      message(SEND_ERROR "${options}: refused without the sentence:\n${output}")
    endif()
  elseif(NOT result EQUAL 0)
    message(SEND_ERROR "${options}: must compile:\n${output}")
  endif()
endforeach()
