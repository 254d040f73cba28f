# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What the usual run leaves out of the unit tests, and why: CORDEE_ALL_TESTS builds and runs it all. Each header's own test
# stays, and so does each law, on one instantiation at least.

# Tests that instantiate once more what the others do:
#   a trainer of each optimizer: goldens* have them all; with any reducer: combinations.cpp has every reducer's type
#   emulated GPU, every reducer: reducers.cpp on the CPU, the kernels' own tests, and the steps of trainer_emulated.cpp
#   replay: graph_cache.cpp
#   engines over all shapes with tensors in 16 bits: shapes.cpp has them in 32 bits
set(cordee_seldom_sources "/train/([a-z0-9]+/)?(combinations_mixing|combinations_optimizers|reducers_emulated|replay_emulated)[.]cpp$")
string(APPEND cordee_seldom_sources "|/ops/engines/shapes_in_16_bits[.]cpp$")

# Test cases that run for long: int8's accuracy after calibration (its error and its ranges stay), and steps of two ranks and
# of bf16 on an emulated GPU (one rank, and fp16, stay).
set(cordee_seldom_cases_train "calibrate: int8 evaluates as fp32*" "emulated GPU: two ranks on one device*"
  "emulated GPU: bf16 trains*")

# Millions of simulated messages.
set(cordee_seldom_cases_simulated "*of 1024 ranks and more")

# cordee_leave_out_of_usual(LIST): removes from the list of sources what this build leaves out.
function(cordee_leave_out_of_usual list)
  if(NOT CORDEE_ALL_TESTS)
    set(seldom ${${list}})
    list(FILTER seldom INCLUDE REGEX "${cordee_seldom_sources}")
    list(TRANSFORM seldom REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/" "")
    cordee_only_with_all(${seldom})
    list(FILTER ${list} EXCLUDE REGEX "${cordee_seldom_sources}")
    set(${list} ${${list}} PARENT_SCOPE)
  endif()
endfunction()

# cordee_seldom_cases(RESULT NAME): doctest's options that leave out the cases of the test NAME.
function(cordee_seldom_cases result name)
  set(cases ${cordee_sanitized_seldom_cases_${name}})
  if(NOT CORDEE_ALL_TESTS)
    list(APPEND cases ${cordee_seldom_cases_${name}})
  endif()
  set(${result} PARENT_SCOPE)
  if(cases)
    foreach(case IN LISTS cases)
      cordee_only_with_all("${name}:\"${case}\"")
    endforeach()
    list(JOIN cases "," cases)
    set(${result} "--test-case-exclude=${cases}" PARENT_SCOPE)
  endif()
endfunction()
