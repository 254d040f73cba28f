# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails where a number's text would follow the application's locale: printf and scanf with a conversion of a
# floating-point number, strtod and its kind, and a stream that is written or read with << or >> and is not imbued with
# std::locale::classic(). core/decimal.hpp and <charconv> follow no locale.
# Usage: cmake -D ROOT=<the repository> -P locale.cmake
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/include/*.hpp ${ROOT}/include/*.cuh ${ROOT}/examples/*.hpp
  ${ROOT}/examples/*.cpp ${ROOT}/examples/*.cu)
if(NOT files)
  message(FATAL_ERROR "no source in ${ROOT}")
endif()
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} text)
  string(REGEX REPLACE "[][]" "@" text "${text}")
  string(REGEX REPLACE "(^|\n) *//[^\n]*" "\\1" text "${text}")
  string(REPLACE ";" "\n@@" text "${text}")  # a call ends with its statement
  string(REPLACE "%%" "" text "${text}")
  string(REGEX MATCHALL "(printf|scanf)\\([^@]*@@|(printf|scanf)\\([^\n]*" calls "${text}")
  foreach(call IN LISTS calls)
    if(call MATCHES "%[-+#0-9.*]*[lL]?[aefgAEFG]")
      message(SEND_ERROR "${file}: ${CMAKE_MATCH_0} follows the locale: use %s and decimal (core/decimal.hpp)")
    endif()
  endforeach()
  if(text MATCHES "[^a-z_](strtod|strtof|strtold|stod|stof|stold|atof|std::to_string)[^a-z_]")
    message(SEND_ERROR "${file}: ${CMAKE_MATCH_1} follows the locale: use decimal (core/decimal.hpp) or concat")
  endif()
  string(REGEX MATCHALL "std::[io]?(f|string)stream [a-z_]+" streams "${text}")
  foreach(stream IN LISTS streams)
    string(REGEX REPLACE ".* " "" name "${stream}")
    if(text MATCHES "[^a-z_.]${name}( |\n)*(<<|>>)" AND NOT text MATCHES "[^a-z_]${name}[.]imbue\\(std::locale::classic")
      message(SEND_ERROR "${file}: the stream ${name} follows the locale: imbue it with std::locale::classic()")
    endif()
  endforeach()
endforeach()
