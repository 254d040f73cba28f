# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The order in which ctest starts tests, and what it runs at a time: so that no core waits for the last long test.

# COST of a test, higher ones first; most have none. scripts/test runs four at a time on two cores: at first two long programs
# and one fault of an MPI run, which takes two places and mostly waits for deadlines (after one-place tests it would find two
# places only when nothing else is left); then programs of a minute or so, then those of ten seconds or more.
set(first_test 40)
set(waiting_test 30)
set(longest_test 25)
set(long_test 20)

# Tests of these files, PATH or PATH followed by more, are a test FOLDER.NAME beside the test FOLDER, of the same program;
# NAME is the path's last part.
set(cordee_parts_ops engines/amx engines/direct engines/winograd)
set(cordee_parts_comm failure reducers/gossip reducers/ring transports)
set(cordee_parts_train trainer_emulated adversarial step/frozen goldens fit)

# cordee_add_parts(FOLDER SOURCES [OPTION...]): the tests of a folder's program. Each case is in one of them: the patterns that
# select those of the parts are excluded from the test FOLDER.
function(cordee_add_parts folder sources)
  set(names)
  set(excluded)
  foreach(part IN LISTS cordee_parts_${folder})
    file(GLOB found ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${part}*)
    if(NOT found)
      message(FATAL_ERROR "tests/order.cmake: there is no ${folder}/${part}*")
    endif()
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "/${folder}/${part}")
    if(files)
      get_filename_component(name ${part} NAME)
      set(pattern "*/tests/${folder}/${part}*")
      list(APPEND excluded ${pattern})
      list(APPEND names ${folder}.${name})
      add_test(NAME ${folder}.${name} COMMAND test_${folder} --source-file=${pattern} ${ARGN})
    endif()
  endforeach()
  if(excluded)
    list(JOIN excluded "," excluded)
    set(excluded --source-file-exclude=${excluded})
  endif()
  add_test(NAME ${folder} COMMAND test_${folder} ${excluded} ${ARGN})
  set_tests_properties(${folder} ${names} PROPERTIES TIMEOUT ${deadline} LABELS unit COST ${longest_test})
  if(folder MATCHES "^(comm|train)$")
    set_tests_properties(${folder} PROPERTIES COST ${first_test})
  endif()
endfunction()
