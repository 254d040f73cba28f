# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails unless the README contains examples/quick_start.cpp verbatim; that file is compiled.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/quick_start.cpp program)
string(FIND "${readme}" "```cpp\n${program}```" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the first program of README.md differs from examples/quick_start.cpp")
endif()
