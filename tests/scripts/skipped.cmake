# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What scripts/test lists as skipped: of a report of ctest's own over tests that pass, fail and are skipped. Usage:
#
#   cmake -D ROOT=SOURCES -D WORK=FOLDER -D CTEST=PROGRAM -D AWK=PROGRAM -P skipped.cmake
set(tests "")
# add(NAME PROPERTIES TEXT): a test that prints TEXT.
function(add name properties text)
  file(WRITE ${WORK}/${name}.txt "${text}")
  set(tests "${tests}add_test(${name} \"${CMAKE_COMMAND}\" -E cat ${WORK}/${name}.txt)\n" PARENT_SCOPE)
  if(properties)
    file(APPEND ${WORK}/properties.cmake "set_tests_properties(${name} PROPERTIES ${properties})\n")
  endif()
endfunction()
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(WRITE ${WORK}/properties.cmake "")
string(REPEAT "a line of a program that prints much\n" 5000 much)
add(passes "" "[doctest] test cases: 4 | 4 passed | 0 failed | 2 skipped\nnothing was skipped: it says so within a line\n")
add(case "" "${much}skipped: a < b && \"c\": needs root\nskipped: another: no /dev/full\n[doctest] Status: SUCCESS!\n")
add(ranks "" "skipped: both: no peer\nskipped: both: no peer\n")
add(absent "SKIP_REGULAR_EXPRESSION \"skipped: \"" "skipped: no libzmq: package libzmq3-dev\n")
add(late "SKIP_REGULAR_EXPRESSION \"skipped: \"" "-- configured\n   skipped: no conan\n")
add(fails "FAIL_REGULAR_EXPRESSION wrong" "skipped: a case: needs root\nwrong\n")
file(READ ${WORK}/properties.cmake properties)
file(WRITE ${WORK}/CTestTestfile.cmake "${tests}${properties}")
file(STRINGS ${ROOT}/scripts/test options REGEX "--test-output-size-passed")
string(REGEX MATCH "--test-output-size-passed [0-9]+" size "${options}")
separate_arguments(size)
execute_process(COMMAND ${CTEST} --output-junit ${WORK}/report.xml ${size} WORKING_DIRECTORY ${WORK} OUTPUT_QUIET ERROR_QUIET)
execute_process(COMMAND ${AWK} -v preset=release -f ${ROOT}/cmake/skipped.awk ${WORK}/report.xml
  OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(CONCAT expected
  "  release: case: a < b && \"c\": needs root\n  release: case: another: no /dev/full\n"
  "  release: ranks: both: no peer\n"
  "  release: absent: no libzmq: package libzmq3-dev\n"
  "  release: late: no conan\n"
  "  release: fails: a case: needs root\n")
if(NOT listed STREQUAL expected)
  message(FATAL_ERROR "listed:\n${listed}expected:\n${expected}")
endif()
