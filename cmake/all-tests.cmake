# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What is built and run with CORDEE_ALL_TESTS alone: slow, and seldom what fails. Without that option it is listed in
# only_with_all.txt of the build, which scripts/test prints, so that nothing is left out in silence.
set_property(GLOBAL PROPERTY cordee_only_with_all "")

# Programs that need a GPU are compiled where there is one, and by --all.
execute_process(COMMAND nvidia-smi --list-gpus RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
set(compile_gpu_tests ON)
if(no_gpu AND NOT CORDEE_ALL_TESTS)
  set(compile_gpu_tests OFF)
endif()

# cordee_only_with_all(NAME...): records tests, test sources or programs that this build leaves out.
function(cordee_only_with_all)
  set_property(GLOBAL APPEND PROPERTY cordee_only_with_all ${ARGN})
endfunction()

# cordee_seldom_built(TARGET...): programs that no test runs. They are targets as before, but "all" does not build them.
function(cordee_seldom_built)
  if(CORDEE_TESTS AND NOT CORDEE_ALL_TESTS)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
    cordee_only_with_all(${ARGN})
  endif()
endfunction()

# cordee_skipped_test(NAME LABEL REASON): the test NAME prints "skipped: REASON", which scripts/test lists. It stands for what
# cannot be built here, or for all tests of a program that cannot.
function(cordee_skipped_test name label reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " LABELS ${label})
endfunction()

# cordee_skipped_without(COMPONENT LABEL NAME...): tests that are skipped because this build has no cordee::COMPONENT.
function(cordee_skipped_without component label)
  string(TOUPPER ${component} upper)
  if(CORDEE_${upper} STREQUAL "OFF")
    set(reason "CORDEE_${upper} is OFF")
  else()
    set(reason "needs ${cordee_missing_${component}}")
  endif()
  foreach(name IN LISTS ARGN)
    cordee_skipped_test(${name} ${label} "${reason}")
  endforeach()
endfunction()

# cordee_write_only_with_all(): one name a line.
function(cordee_write_only_with_all)
  get_property(names GLOBAL PROPERTY cordee_only_with_all)
  list(REMOVE_DUPLICATES names)
  list(JOIN names "\n" text)
  file(WRITE ${PROJECT_BINARY_DIR}/only_with_all.txt "${text}\n")
endfunction()

# cordee_check_syntax(TARGET): the sources of this object library are compiled as far as their syntax and types, in half of the
# time of objects without optimization; nothing is linked with it.
function(cordee_check_syntax target)
  target_compile_options(${target} PRIVATE -fsyntax-only)
  set_target_properties(${target} PROPERTIES
    CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-P;${PROJECT_SOURCE_DIR}/cmake/check-syntax.cmake;--")
endfunction()
