# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Translation units of tests: each test with its header first, or several tests in one unit.

# cordee_header_of(RESULT SOURCE): the header that a test mirrors, as it is included; empty if there is none.
function(cordee_header_of result source)
  get_filename_component(source ${source} ABSOLUTE)
  file(RELATIVE_PATH header ${PROJECT_SOURCE_DIR}/tests ${source})
  string(REGEX REPLACE "[.]cpp$" ".hpp" header cordee/${header})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/include/${header})
    set(header)
  endif()
  set(${result} ${header} PARENT_SCOPE)
endfunction()

# cordee_combine_tests(LIST NAME EXTENSION): replaces the tests in the variable LIST by the translation units
# NAME_0.EXTENSION... of CORDEE_TEST_UNITY_BATCH tests each. Kept separate are the tests that check what their own
# includes declare, the files of explicit instantiations, and two that are compiled with less optimization. With batches of
# one, each test has its header as the first include, which shows that the header includes all that it uses; headers of
# tests that share a unit are compiled by test_headers (headers/alone.cmake), and the umbrella by static/concepts.cpp.
function(cordee_combine_tests list name extension)
  foreach(source IN LISTS ${list})
    cordee_header_of(header ${source})
    if(header AND CORDEE_TEST_UNITY_BATCH EQUAL 1)
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-include;${header}")
    elseif(header)
      set_property(GLOBAL APPEND PROPERTY cordee_combined_headers ${header})
    endif()
  endforeach()
  if(CORDEE_TEST_UNITY_BATCH EQUAL 1)
    return()
  endif()
  set(tests ${${list}})
  set(units ${tests})
  list(FILTER units INCLUDE REGEX "/core/algorithm[.]cpp$|/core/clock[.]cpp$|/core/math[.]cpp$|/core/min_max[.]cpp$|/core/thread[.]cpp$|/infer/allocations[.]cpp$|/infer/integer_network_on[.]cpp$|engines[.]cpp$|/ops/cpu/half_precision[a-z_]*[.]cpp$")
  list(FILTER tests EXCLUDE REGEX "/core/algorithm[.]cpp$|/core/clock[.]cpp$|/core/math[.]cpp$|/core/min_max[.]cpp$|/core/thread[.]cpp$|/infer/allocations[.]cpp$|/infer/integer_network_on[.]cpp$|engines[.]cpp$|/ops/cpu/half_precision[a-z_]*[.]cpp$")
  set(script ${PROJECT_SOURCE_DIR}/cmake/unity.cmake)
  # A type is compiled once a unit: batches of 36 have a fifth of the trainers in common, and a third of the kernels of
  # integer networks. Two units of trainers take 4.5 GB each.
  set(size ${CORDEE_TEST_UNITY_BATCH})
  if(tests AND size EQUAL 36 AND name MATCHES "^(train|infer)$")
    list(LENGTH tests size)
    if(name STREQUAL "train")
      math(EXPR size "(${size} + 1) / 2")
    endif()
  endif()
  set(k 0)
  while(tests)
    list(SUBLIST tests 0 ${size} batch)
    list(REMOVE_ITEM tests ${batch})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/unity/${name}_${k}.${extension})
    add_custom_command(OUTPUT ${unit} DEPENDS ${batch} ${script} VERBATIM COMMENT "Combining tests: ${name}_${k}"
      COMMAND ${CMAKE_COMMAND} -D "SOURCES=${batch}" -D ROOT=${PROJECT_SOURCE_DIR} -D UNITY=${unit} -P ${script})
    list(APPEND units ${unit})
    math(EXPR k "${k} + 1")
  endwhile()
  set(${list} ${units} PARENT_SCOPE)
endfunction()
