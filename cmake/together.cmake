# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Several tests as one translation unit, so that what they share is compiled once: first what they include,
# then each in a namespace of its own, where its includes bring nothing any more; its macros end with it. Usage:
#
#   cmake -D "SOURCES=<tests>" -D ROOT=<the folder above include/ and tests/> -D TOGETHER=<a file to write> -P together.cmake
cmake_minimum_required(VERSION 3.25)
foreach(source IN LISTS SOURCES)
  file(READ ${source} text)
  string(REGEX MATCHALL "\n#include [^\n]+" lines "${text}")
  list(APPEND includes ${lines})
  string(REGEX MATCHALL "\n#define [A-Za-z0-9_]+" macros "${text}")
  list(TRANSFORM macros REPLACE define undef)
  list(JOIN macros "" macros)
  file(RELATIVE_PATH source ${ROOT} ${source})
  string(MAKE_C_IDENTIFIER ${source} name)
  string(APPEND tests "\nnamespace ${name} {\n#include \"${source}\"\n}${macros}")
endforeach()
list(SORT includes)
list(REMOVE_DUPLICATES includes)
list(JOIN includes "" includes)
file(WRITE ${TOGETHER} "${includes}\n${tests}\n")
