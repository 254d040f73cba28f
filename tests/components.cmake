# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Tests of components. A component's are what has its headers' pattern in its path: of testing and cuda they are in the
# programs of their folders, of nccl, and of folders with a CMakeLists.txt, in programs of their own; each other component
# has a program test_NAME here.
set(component_tests)
file(GLOB_RECURSE tests RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cpp)
list(FILTER tests EXCLUDE REGEX "^(support|package)/")
list(TRANSFORM tests PREPEND /)
set(reversed ${cordee_components})
list(REVERSE reversed)
list(REMOVE_ITEM reversed testing cuda)
foreach(component IN LISTS reversed)  # a test is the last one's that matches, as a header is
  set(own ${tests})
  list(FILTER own INCLUDE REGEX "${cordee_${component}_HEADERS}")
  list(FILTER tests EXCLUDE REGEX "${cordee_${component}_HEADERS}")
  list(TRANSFORM own PREPEND ${CMAKE_CURRENT_SOURCE_DIR})
  list(APPEND component_tests ${own})
  set(component_tests_${component})
  foreach(test IN LISTS own)
    get_filename_component(folder ${test} DIRECTORY)
    if(NOT EXISTS ${folder}/CMakeLists.txt)
      list(APPEND component_tests_${component} ${test})
    endif()
  endforeach()
endforeach()

set(optimization_simulated -O2)  # it makes millions of messages
if(NOT CORDEE_ALL_TESTS)  # as fast, and compiled in two thirds of the time
  set(optimization_simulated -O1)
endif()
list(REMOVE_ITEM reversed mpi nccl)
foreach(component IN LISTS reversed)
  set(sources ${component_tests_${component}})
  if(NOT sources)
    continue()
  endif()
  if(TARGET cordee::${component})
    cordee_combine_tests(sources ${component} cpp)
    add_executable(test_${component} ${sources})
    target_link_libraries(test_${component} PRIVATE cordee_test_main cordee_dev cordee_testing cordee_${component})
    set(optimization ${optimization_${component}})
    if(NOT optimization)
      set(optimization -Og)
    endif()
    target_compile_options(test_${component} PRIVATE $<$<CONFIG:Release>:${optimization}>)
    cordee_seldom_cases(without ${component})
    add_test(NAME ${component} COMMAND test_${component} ${without})
  else()
    cordee_skipped_without(${component} unit ${component})
  endif()
  set_tests_properties(${component} PROPERTIES TIMEOUT ${deadline} LABELS unit COST ${long_test})
endforeach()
