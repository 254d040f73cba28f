# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Sets cordee_compiler_refusal: why the C++ compiler of this project cannot compile cordee, or "".
set(cordee_compiler_refusal "")
set(cordee_oldest_GNU 12)
set(cordee_oldest_Clang 16)
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS "${cordee_oldest_${CMAKE_CXX_COMPILER_ID}}")
  set(cordee_compiler_refusal
    "cordee needs g++ 12, clang 16 or a later one, but ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: set CMAKE_CXX_COMPILER, in a new build folder")
endif()
