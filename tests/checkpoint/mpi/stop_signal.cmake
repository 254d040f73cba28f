# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Runs stop_signal in a new folder.
# Usage: cmake -D "RUN=mpirun;-n;3" -D PROGRAM=stop_signal -D FOLDER=... -P stop_signal.cmake
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${RUN} ${PROGRAM} ${FOLDER} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out
  TIMEOUT 100)
file(REMOVE_RECURSE ${FOLDER})
if(NOT result EQUAL 0 OR NOT out MATCHES "3 ranks stopped after update 4, and ended with the same bits")
  message(FATAL_ERROR "ended with ${result}:\n${out}")
endif()
