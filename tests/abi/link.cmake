# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Links two units that were compiled with different CORDEE_HAS_*, and for different processors. Usage:
#   cmake -D COMPILER=... -D ROOT=<repository> -D WORK=<folder> [-D ALL=ON] -P link.cmake
#
# For each macro that CMakeLists.txt defines: with the same macro in both units the program links and runs; with
# the macro in one unit alone, the linker reports an undefined reference to the function whose signature names a
# type of the library; and units that share inline functions alone link, each with its own copy. The same for options
# that change the ISA, which are only compiled, linked and started here: inline functions of the two units use no vectors.
cmake_minimum_required(VERSION 3.25)
set(here ${ROOT}/tests/abi)
file(MAKE_DIRECTORY ${WORK})

function(compile source object)
  execute_process(COMMAND ${COMPILER} -std=c++20 -O0 -I${ROOT}/include ${ARGN} -c ${here}/${source} -o ${WORK}/${object}
    RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${source} ${ARGN} does not compile:\n${errors}")
  endif()
endfunction()
# link(RESULT ERRORS PROGRAM LIBRARY): links two objects.
function(link result errors program library)
  file(REMOVE ${WORK}/program)
  execute_process(COMMAND ${COMPILER} ${WORK}/${program} ${WORK}/${library} -o ${WORK}/program
    RESULT_VARIABLE code ERROR_VARIABLE text)
  set(${result} ${code} PARENT_SCOPE)
  set(${errors} "${text}" PARENT_SCOPE)
endfunction()
function(expect_program_runs build program library)
  link(result errors ${program} ${library})
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${build}: the program does not link:\n${errors}")
    return()
  endif()
  execute_process(COMMAND ${WORK}/program RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(SEND_ERROR "${build}: the program links and exits with ${code}")
  endif()
endfunction()
# The program does not link, for the function whose signature names a type of the library.
function(expect_undefined build program library)
  link(result errors ${program} ${library})
  if(result EQUAL 0)
    message(SEND_ERROR "${build}: the program links")
  elseif(NOT errors MATCHES "undefined (reference|symbol)[^\n]*count_numbers\\(cordee::")
    message(SEND_ERROR "${build}: the linker does not name count_numbers:\n${errors}")
  endif()
endfunction()

file(STRINGS ${ROOT}/CMakeLists.txt lines REGEX "target_compile_definitions.* CORDEE_HAS_")
set(macros)
foreach(line IN LISTS lines)
  string(REGEX MATCH "CORDEE_HAS_[A-Z0-9_]+" macro "${line}")
  list(APPEND macros ${macro})
endforeach()
list(LENGTH macros count)
if(count LESS 3)
  message(FATAL_ERROR "CMakeLists.txt defines CORDEE_HAS_ZLIB, _CUDA and _CUDNN at least; found: ${macros}")
endif()

list(TRANSFORM macros PREPEND -D)
list(TRANSFORM macros APPEND =1)
execute_process(COMMAND ${COMPILER} -dumpmachine OUTPUT_VARIABLE machine)
if(machine MATCHES "^x86_64")
  list(APPEND macros -mfma -mavx512f)
  if(ALL)
    list(APPEND macros -mavx "-mavx512f -mavx512bf16")
  endif()
endif()

compile(library.cpp library.o)
compile(program.cpp program.o)
compile(program.cpp inline_program.o -DINLINE_ONLY)
expect_program_runs("no macro in either unit" program.o library.o)
foreach(macro IN LISTS macros)
  separate_arguments(options UNIX_COMMAND ${macro})
  compile(library.cpp other_library.o ${options})
  compile(program.cpp other_program.o ${options})
  expect_undefined("${macro} in one unit alone" program.o other_library.o)
  expect_program_runs("${macro} in one of two units that share inline functions alone" inline_program.o other_library.o)
  if(macro MATCHES "^-D")  # this processor need not have the ISA
    expect_program_runs("${macro} in both units" other_program.o other_library.o)
  else()
    link(result errors other_program.o other_library.o)
    if(NOT result EQUAL 0)
      message(SEND_ERROR "${macro} in both units: the program does not link:\n${errors}")
    endif()
  endif()
endforeach()

# Registers of one width, which hold integers in one unit alone: images are resized by other types in it.
if(machine MATCHES "^x86_64")
  compile(program.cpp program.o -mavx)
  compile(library.cpp library.o -mavx2)
  expect_undefined("-mavx in one unit, -mavx2 in the other" program.o library.o)
endif()
