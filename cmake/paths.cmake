# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails where a page, or a comment in the source, names a source file or page that does not exist. A path begins at the
# root or below include/cordee, or the file is beside the one that names it; * and {a,b} are expanded. Blocks of code in
# pages are not read. A test that reads, or names, a path outside the repository fails too. Usage: cmake -D ROOT=<the repository> -P paths.cmake
cmake_minimum_required(VERSION 3.25)
set(path "[A-Za-z0-9_./*{},-]+[.](hpp|cpp|cuh|cu|cmake|md|py|sh|tsv)")

# expand(PATH RESULT): the paths that PATH stands for.
function(expand path result)
  set(all)
  if(path MATCHES "^([^{]*){([^}]*)}(.*)$")
    set(before ${CMAKE_MATCH_1})
    set(after ${CMAKE_MATCH_3})
    string(REPLACE "," ";" parts "${CMAKE_MATCH_2},")
    list(POP_BACK parts)
    foreach(part IN LISTS parts)
      expand("${before}${part}${after}" some)
      list(APPEND all ${some})
    endforeach()
  else()
    set(all ${path})
  endif()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

file(GLOB pages RELATIVE ${ROOT} ${ROOT}/*.md)
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/docs/*.md ${ROOT}/examples/*.md ${ROOT}/.github/*.md ${ROOT}/include/*.hpp ${ROOT}/include/*.cuh
  ${ROOT}/examples/*.hpp ${ROOT}/examples/*.cpp ${ROOT}/examples/*.cu ${ROOT}/benchmarks/*.hpp ${ROOT}/benchmarks/*.cpp
  ${ROOT}/benchmarks/*.cu)
foreach(file IN LISTS pages files)
  file(READ ${ROOT}/${file} text)
  string(REGEX REPLACE "[][;<]" "@" text "${text}")
  if(file MATCHES "[.]md$")
    string(REGEX REPLACE "```[^`]*```" "" text "${text}")
  else()
    string(REGEX MATCHALL "//[^\n]*" text "${text}")
  endif()
  get_filename_component(folder ${file} DIRECTORY)
  string(REGEX MATCHALL "@?${path}([^A-Za-z0-9_]|$)" named "${text}")
  list(REMOVE_DUPLICATES named)
  foreach(name IN LISTS named)
    if(name MATCHES "^(@|//)" OR NOT name MATCHES "${path}")
      continue()  # the header of another library, a URL
    endif()
    set(name ${CMAKE_MATCH_0})
    expand(${name} expanded)
    foreach(one IN LISTS expanded)
      file(GLOB found ${ROOT}/${one} ${ROOT}/include/${one} ${ROOT}/include/cordee/${one} ${ROOT}/${folder}/${one})
      if(NOT found)
        message(SEND_ERROR "${file} names ${one}, which does not exist")
      endif()
    endforeach()
  endforeach()
endforeach()

file(GLOB_RECURSE tests RELATIVE ${ROOT} ${ROOT}/tests/*.?pp ${ROOT}/tests/*.cmake ${ROOT}/tests/CMakeLists.txt
  ${ROOT}/examples/*.cmake ${ROOT}/benchmarks/*.cmake)
list(FILTER tests EXCLUDE REGEX "^tests/support/path_violations/")
if(ROOT MATCHES "path_violations$")
  file(GLOB tests RELATIVE ${ROOT} ${ROOT}/tests/*/*.cpp)
endif()
foreach(file IN LISTS tests)
  file(READ ${ROOT}/${file} text)
  if(text MATCHES "(CORDEE|PROJECT|CMAKE)_SOURCE_DIR[}\" ]*/[.][.]|skip[a-z_]*[(][^\n]*[ \"][.][.]/")
    message(SEND_ERROR "${file} names ${CMAKE_MATCH_0}, outside the repository: take the path from an option or a variable")
  endif()
endforeach()
