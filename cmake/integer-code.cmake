# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if the machine code of an object file computes with floating-point numbers: arithmetic, comparisons and
# conversions of SSE, AVX and x87. Moves, shuffles and bit operations of the same registers are no arithmetic.
# Usage: cmake -D OBJECT=<file> -D OBJDUMP=<program> -D PROCESSOR=<CMAKE_SYSTEM_PROCESSOR> [-D HAS=<pattern>]
#   [-D HAS_NO=<pattern>] -P integer-code.cmake
# The patterns tell that the code is of the processor that it was compiled for.
cmake_minimum_required(VERSION 3.25)
if(NOT OBJDUMP)
  message("skipped: objdump is not installed")
  return()
endif()
if(NOT PROCESSOR MATCHES "x86_64|AMD64")
  message("skipped: the list of instructions is x86-64's")
  return()
endif()
execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn -C ${OBJECT} OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
if(NOT code MATCHES "run_reference")
  message(FATAL_ERROR "${OBJECT}: no code of integer programs")
endif()
if((HAS AND NOT code MATCHES "${HAS}") OR (HAS_NO AND code MATCHES "${HAS_NO}"))
  message(FATAL_ERROR "${OBJECT}: code of another processor: it lacks ${HAS}, or has ${HAS_NO}")
endif()
set(scalar "add|sub|mul|div|sqrt|max|min|cmp[a-z_]*|u?comi|hadd|hsub|addsub|dp|round|rcp[0-9]*|rsqrt[0-9]*")
string(APPEND scalar "|fn?m(add|sub|addsub|subadd)[0-9]*|rndscale|reduce|scalef|getexp|getmant|range|fixupimm")
set(float_instructions "\t(v?(${scalar})(ps|pd|ss|sd|ph|sh)|v?cvt[a-z0-9]+|vdpbf16ps|f(i?add|i?subr?|i?mul|i?divr?|ld|ild|i?stp?|com)[a-z]*) ")
# The instructions alone first: lines around them are tried from each of their characters.
string(REGEX MATCHALL "${float_instructions}" found "${code}")
list(LENGTH found count)
if(count GREATER 0)
  string(REGEX MATCH "[^\n]*${float_instructions}[^\n]*" first "${code}")
  message(FATAL_ERROR "${OBJECT}: ${count} floating-point instructions, the first one: ${first}")
endif()
message("no floating-point instruction")
