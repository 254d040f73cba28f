# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Tests of the source itself: layers, the umbrella, the components, a test for each header, README's program, paths that
# pages and comments name, the formatting.
add_test(NAME source.layering COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/include
  -P ${PROJECT_SOURCE_DIR}/cmake/layering.cmake)
foreach(violation "optim/sideways.hpp:5: optim may not include comm/reducers/ring.hpp"
    "optim/sideways.hpp:7: a .hpp compiles without nvcc" "optim/sideways.hpp:9: include it as <cordee/...>"
    "train/step/upward.hpp:3: train/step may not include train/fit.hpp"
    "ops/engines/direct/tiles/upward.hpp:3: ops/engines/direct/tiles may not" "kernels/lost.hpp: the folder kernels is not in the table")
  string(REGEX MATCH "^[^ ]*[0-9p]" location ${violation})
  string(REPLACE "." "[.]" expected ${violation})
  add_test(NAME source.layering_detects.${location} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations -P ${PROJECT_SOURCE_DIR}/cmake/layering.cmake)
  set_tests_properties(source.layering_detects.${location} PROPERTIES
    PASS_REGULAR_EXPRESSION ${expected} TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.readme COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/readme.cmake)
add_test(NAME source.paths COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/paths.cmake)
foreach(violation "README.md:lost.hpp" "README.md:docs/gone.md" "README.md:tests/*.cpp" "here.hpp:beside.hpp"
    "tests/images/outside.cpp:/..")
  string(REPLACE ":" ";" parts ${violation})
  list(GET parts 0 file)
  list(GET parts 1 path)
  string(REGEX REPLACE "([.*])" "[\\1]" path ${path})
  add_test(NAME source.paths_detects.${violation} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/path_violations -P ${PROJECT_SOURCE_DIR}/cmake/paths.cmake)
  set_tests_properties(source.paths_detects.${violation} PROPERTIES
    PASS_REGULAR_EXPRESSION "${file} names[ \n]+[A-Za-z/_\" ]*${path}," TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.locale COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/locale.cmake)
foreach(violation "written.hpp: %8.3f" "written.hpp: strtod" "streamed.cpp: the stream table")
  string(REGEX REPLACE "[ :%]+" "." name ${violation})
  string(REPLACE "." "[.]" expected ${violation})
  string(REPLACE " " "[ \n]+" expected ${expected})
  add_test(NAME source.locale_detects.${name} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/locale_violations -P ${PROJECT_SOURCE_DIR}/cmake/locale.cmake)
  set_tests_properties(source.locale_detects.${name} PROPERTIES
    PASS_REGULAR_EXPRESSION ${expected} TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.umbrella COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/include
  -P ${PROJECT_SOURCE_DIR}/cmake/umbrella.cmake)
add_test(NAME source.components COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/include
  -D README=${PROJECT_SOURCE_DIR}/README.md -P ${PROJECT_SOURCE_DIR}/cmake/registered.cmake)
foreach(violation "foreign.hpp includes ucp/api/ucp.h" "component mpi has no header" "no row for mpi" "components has teapot")
  string(REGEX REPLACE "[ /]" "_" name ${violation})
  string(REGEX REPLACE " " "[ \n]+" expected ${violation})
  add_test(NAME source.components_detects.${name} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations
    -D README=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations/README.md -P ${PROJECT_SOURCE_DIR}/cmake/registered.cmake)
  set_tests_properties(source.components_detects.${name} PROPERTIES
    PASS_REGULAR_EXPRESSION ${expected} TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.public_names COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/include -D MOST=262
  -P ${PROJECT_SOURCE_DIR}/cmake/public_names.cmake)
# Public names without docstring are no more than scripts/reference/undocumented.txt allows; the tables of options in
# docs/policies have the types, defaults and docstrings of the headers.
foreach(test "docstrings --counts" "option_tables --stale")
  separate_arguments(test)
  list(POP_FRONT test name)
  if(PYTHON)
    add_test(NAME source.${name} COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/scripts/docs ${test})
    set_tests_properties(source.${name} PROPERTIES TIMEOUT ${deadline} LABELS source)
  else()
    cordee_skipped_test(source.${name} source "no python3: package python3")
  endif()
endforeach()
if(NOT CORDEE_ALL_TESTS)
  cordee_only_with_all(source.reference)
elseif(PYTHON AND DOXYGEN)
  add_test(NAME source.reference COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/scripts/docs --out ${PROJECT_BINARY_DIR}/docs)
  set_tests_properties(source.reference PROPERTIES TIMEOUT ${deadline} LABELS source)
else()
  cordee_skipped_test(source.reference source "no doxygen: package doxygen")
endif()
add_test(NAME source.device_code COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/include
  -P ${PROJECT_SOURCE_DIR}/cmake/device_code.cmake)
add_test(NAME source.device_code_detects COMMAND ${CMAKE_COMMAND}
  -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations -P ${PROJECT_SOURCE_DIR}/cmake/device_code.cmake)
set_tests_properties(source.device_code_detects PROPERTIES
  PASS_REGULAR_EXPRESSION "optim/dropped.hpp:14: in a kernel" TIMEOUT ${deadline} LABELS source)
add_test(NAME source.opens COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/opens.cmake)
foreach(opening "std::ifstream" "std::fopen" "::open" "a_mode" "c_str")
  string(REPLACE "::" "" name ${opening})
  add_test(NAME source.opens_detects.${name} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/open_violations -P ${PROJECT_SOURCE_DIR}/cmake/opens.cmake)
  set_tests_properties(source.opens_detects.${name} PROPERTIES
    PASS_REGULAR_EXPRESSION "include/opened.hpp: [^\n]*${opening}" TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.assigned_lists COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/assigned_lists.cmake)
foreach(line 18 19 21 23 24)
  add_test(NAME source.assigned_lists_detects.${line} COMMAND ${CMAKE_COMMAND}
    -D ROOT=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations -P ${PROJECT_SOURCE_DIR}/cmake/assigned_lists.cmake)
  set_tests_properties(source.assigned_lists_detects.${line} PROPERTIES
    PASS_REGULAR_EXPRESSION "assigned.hpp:${line}: nvcc drops" TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.mirror COMMAND ${CMAKE_COMMAND} -D HEADERS=${PROJECT_SOURCE_DIR}/include
  -D TESTS=${CMAKE_CURRENT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/mirror.cmake)
foreach(violation "optim/sideways.hpp has no test" "kernels/lost.hpp has a test that asserts nothing")
  string(REGEX MATCH "^[^ ]*" location ${violation})
  string(REPLACE "." "[.]" expected ${violation})
  add_test(NAME source.mirror_detects.${location} COMMAND ${CMAKE_COMMAND}
    -D HEADERS=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations
    -D TESTS=${CMAKE_CURRENT_SOURCE_DIR}/support/layering_violations/tests
    -P ${PROJECT_SOURCE_DIR}/cmake/mirror.cmake)
  set_tests_properties(source.mirror_detects.${location} PROPERTIES
    PASS_REGULAR_EXPRESSION ${expected} TIMEOUT ${deadline} LABELS source)
endforeach()
add_test(NAME source.file_length COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/file_length.cmake)
add_test(NAME source.file_length_detects COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D MOST=299
  -P ${PROJECT_SOURCE_DIR}/cmake/file_length.cmake)
set_tests_properties(source.file_length_detects PROPERTIES
  PASS_REGULAR_EXPRESSION "support/deferred.hpp has 3[0-9]+ lines, more than 299" TIMEOUT ${deadline} LABELS source)
find_program(CLANG_FORMAT NAMES clang-format-16)
add_test(NAME source.format COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}
  -D "CLANG_FORMAT=${CLANG_FORMAT}" -P ${PROJECT_SOURCE_DIR}/cmake/format.cmake)
set_tests_properties(source.format PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
set_tests_properties(source.layering source.file_length source.readme source.paths source.umbrella source.components
  source.public_names source.device_code
  source.assigned_lists source.opens source.mirror source.locale source.format
  PROPERTIES TIMEOUT 900 LABELS source)
