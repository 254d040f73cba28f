# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Usage: cmake -D PROGRAM=<own_model> -D FOLDER=<of its own> -P resumed.cmake
# A run that was stopped after an epoch and continued ends with the weights of one that was not, and those of an epoch
# alone are others.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
function(weights_of result)
  execute_process(COMMAND ${PROGRAM} --epochs 2 --ranks 3 ${ARGN} OUTPUT_VARIABLE out COMMAND_ERROR_IS_FATAL ANY)
  if(NOT out MATCHES "weights ([0-9a-f]+)\n$")
    message(FATAL_ERROR "no weights in the last line:\n${out}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()
weights_of(whole)
weights_of(half --checkpoints ${FOLDER} --until 1)
weights_of(resumed --checkpoints ${FOLDER})
if(half STREQUAL whole OR NOT resumed STREQUAL whole)
  message(FATAL_ERROR "whole ${whole}, stopped ${half}, resumed ${resumed}")
endif()
