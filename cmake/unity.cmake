# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# A unity build of tests: combines several into one translation unit, so that shared headers are compiled once. First
# the includes of all tests (those under an #if with it), then each test in its own namespace, where include guards make
# its includes empty. The macros that a test defines are undefined after it. Usage:
#
#   cmake -D "SOURCES=<tests>" -D ROOT=<parent of include/ and tests/> -D UNITY=<output file> -P unity.cmake
#
# With RENAMED and PREFIX the name RENAMED of each is PREFIX and the name of its file.
cmake_minimum_required(VERSION 3.25)
foreach(source IN LISTS SOURCES)
  file(READ ${source} text)
  set(guarded "\n#if[^\n]*(\n#include [^\n]+)+\n#endif")
  string(REGEX MATCHALL "${guarded}" lines "${text}")
  list(APPEND guarded_includes ${lines})
  string(REGEX REPLACE "${guarded}" "" plain "${text}")
  string(REGEX MATCHALL "\n#include [^\n]+" lines "${plain}")
  list(APPEND includes ${lines})
  string(REGEX MATCHALL "\n#define [A-Za-z0-9_]+" macros "${text}")
  list(TRANSFORM macros REPLACE define undef)
  list(JOIN macros "" macros)
  file(RELATIVE_PATH source ${ROOT} ${source})
  string(MAKE_C_IDENTIFIER ${source} name)
  if(RENAMED)
    get_filename_component(stem ${source} NAME_WE)
    string(APPEND tests "\n#define ${RENAMED} ${PREFIX}${stem}")
    string(APPEND macros "\n#undef ${RENAMED}")
  endif()
  string(APPEND tests "\nnamespace ${name} {\n#include \"${source}\"\n}${macros}")
endforeach()
list(SORT includes)
list(REMOVE_DUPLICATES includes)
list(JOIN includes "" includes)
list(REMOVE_DUPLICATES guarded_includes)
list(JOIN guarded_includes "" guarded_includes)
file(WRITE ${UNITY} "${includes}${guarded_includes}\n${tests}\n")
