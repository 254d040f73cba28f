# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The examples that the usual run does not build, each in a namespace of one translation unit: their syntax and types.

set(sources ${seldom_examples})
list(FILTER sources EXCLUDE REGEX "^quick_start$|^train$|^plan(_measure)?$|^recipes_(simulated|run)$|_gpu$")  # train, plan: their CMakeLists.txt
list(REMOVE_ITEM sources ${libtorch_examples})
if(NOT TARGET cordee::images)
  list(REMOVE_ITEM sources flowers)
endif()
if(NOT TARGET cordee::simulated)
  list(REMOVE_ITEM sources draw_messages)
endif()
if(TARGET cordee::mpi)
  set(separator "$<SEMICOLON>")
  set(mpi_options -DWITH_MPI "-D$<JOIN:$<TARGET_PROPERTY:MPI::MPI_CXX,INTERFACE_COMPILE_DEFINITIONS>,${separator}-D>"
    "-isystem$<JOIN:$<TARGET_PROPERTY:MPI::MPI_CXX,INTERFACE_INCLUDE_DIRECTORIES>,${separator}-isystem>")
else()
  list(REMOVE_ITEM sources many_machines)
endif()
list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1.cpp")
set(unit ${out}/seldom_built.cpp)
set(script ${PROJECT_SOURCE_DIR}/cmake/unity.cmake)
set(options -std=c++20 -pthread -Wall -Wextra -Wconversion
  -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR} -DCORDEE_EXAMPLE_DATA="${PROJECT_SOURCE_DIR}/data")
if(CORDEE_WERROR)
  list(APPEND options -Werror)
endif()
# cordee_check_syntax(UNIT SOURCES OPTIONS...): makes UNIT of the sources, and UNIT.checked.
function(cordee_check_syntax unit sources)
  add_custom_command(OUTPUT ${unit} DEPENDS ${sources} ${script} VERBATIM COMMENT "Combining examples"
    COMMAND ${CMAKE_COMMAND} -D "SOURCES=${sources}" -D ROOT=${PROJECT_SOURCE_DIR} -D UNITY=${unit} -P ${script})
  add_custom_command(OUTPUT ${unit}.checked DEPENDS ${unit} DEPFILE ${unit}.d VERBATIM
    COMMENT "Checking the syntax and the types of seldom built examples"
    COMMAND_EXPAND_LISTS COMMAND ${CMAKE_CXX_COMPILER} ${options} ${ARGN} -fsyntax-only ${unit} -MD -MT ${unit}.checked -MF ${unit}.d
    COMMAND ${CMAKE_COMMAND} -E touch ${unit}.checked)
endfunction()
cordee_check_syntax(${unit} "${sources}" ${mpi_options})
set(checked ${unit}.checked)
if(TARGET cordee::libtorch)  # LibTorch's headers alone take longer than all of the above
  list(TRANSFORM libtorch_examples REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/libtorch/\\1.cpp" OUTPUT_VARIABLE sources)
  get_target_property(folders torch INTERFACE_INCLUDE_DIRECTORIES)
  list(REMOVE_ITEM folders /usr/include)  # which is searched last: the standard library's include_next
  list(TRANSFORM folders PREPEND -isystem)
  cordee_check_syntax(${out}/libtorch_examples.cpp "${sources}" ${folders})
  list(APPEND checked ${out}/libtorch_examples.cpp.checked)
endif()
add_custom_target(examples_checked ALL DEPENDS ${checked})
