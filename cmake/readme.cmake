# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails unless the README contains examples/quick_start.cpp verbatim; that file is compiled. And unless
# examples/README.md has a link to each program of examples/, and projects that ask for this version ask for this one.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/quick_start.cpp program)
string(FIND "${readme}" "```cpp\n${program}```" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the first program of README.md differs from examples/quick_start.cpp")
endif()

file(STRINGS ${ROOT}/include/cordee/core/version.hpp version REGEX "version = ")
string(REGEX MATCH "[0-9]+[.][0-9]+" version "${version}")
foreach(file README.md packaging/conan/test_package/CMakeLists.txt)
  file(STRINGS ${ROOT}/${file} lines REGEX "find_package[(]cordee(_infer)? [0-9]")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "find_package[(]cordee(_infer)? ${version} ")
      message(SEND_ERROR "${file} asks for another version than ${version}: ${line}")
    endif()
  endforeach()
endforeach()

file(READ ${ROOT}/examples/README.md examples)
file(GLOB programs RELATIVE ${ROOT}/examples ${ROOT}/examples/*.cpp ${ROOT}/examples/*.cu ${ROOT}/examples/*/main.cpp
  ${ROOT}/examples/plan/measure.cpp ${ROOT}/examples/libtorch/*.cpp ${ROOT}/examples/recipes/*.cpp ${ROOT}/examples/model_parallel/*.cpp)
foreach(program IN LISTS programs)
  string(FIND "${examples}" "](${program})" position)
  if(position EQUAL -1)
    message(SEND_ERROR "examples/README.md has no link to ${program}")
  endif()
endforeach()
