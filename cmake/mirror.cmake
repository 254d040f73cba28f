# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Checks that every header has a test.
# Usage: cmake -D HEADERS=<folder that contains cordee/> -D TESTS=<folder> -P mirror.cmake
#
# cordee/comm/reducers/ring.hpp is tested by comm/reducers/ring.cpp of the tests, a .cuh by a .cu or .cpp of the same
# name. A test must contain a TEST_CASE or a static_assert. Umbrellas and components by name are exempt: many tests
# include them. Further tests, of a part of a header or of several headers, may have any name.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${HEADERS}/cordee ${HEADERS}/cordee/*.hpp ${HEADERS}/cordee/*.cuh)
include(${CMAKE_CURRENT_LIST_DIR}/components.cmake)
set(components ${cordee_components})
list(TRANSFORM components REPLACE "(.+)" "comm/\\1.hpp")
list(REMOVE_ITEM headers cordee.hpp cordee.cuh libtorch.hpp ${components})
if(NOT headers)
  message(FATAL_ERROR "no headers below ${HEADERS}/cordee")
endif()
foreach(header IN LISTS headers)
  string(REGEX REPLACE "[.](hpp|cuh)$" "" stem ${header})
  file(GLOB tests ${TESTS}/${stem}.cpp ${TESTS}/${stem}.cu)
  if(NOT tests)
    message(SEND_ERROR "${header} has no test: write ${stem}.cpp")
  endif()
  foreach(test IN LISTS tests)
    file(READ ${test} text)
    if(NOT text MATCHES "TEST_CASE|static_assert")
      message(SEND_ERROR "${header} has a test that asserts nothing: ${stem}.cpp")
    endif()
  endforeach()
endforeach()
