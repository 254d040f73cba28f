# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What the usual run leaves out of the unit tests, and why: CORDEE_ALL_TESTS builds and runs it all. Each header's own test
# stays, and so does each law, on one instantiation at least.

# Tests that instantiate once more what the others do:
#   a trainer of each optimizer: goldens* have them all; of each reducer: own_model (matrix/own_model.cpp) has the exact ones'
#     own types, reducers.cpp, server.cpp, goldens_reducers.cpp and checkpoint/resume.cpp the others'
#   updates on the host of a residual network on tensor cores: step/host_update.cpp has them on an emulated GPU
#   emulated GPU, every reducer: reducers.cpp on the CPU, the kernels' own tests, and the steps of trainer_emulated.cpp
#   emulated GPU, SAM, swapped trainers, shards: sharpness_aware.cpp, swapped_trainer.cpp and step/shard.cpp on the CPU, of
#     the same code
#   replay: graph_cache.cpp
#   engines over all shapes with tensors in 16 bits: shapes.cpp has them in 32 bits
set(cordee_seldom_sources "/train/([a-z0-9]+/)?(combinations|combinations_mixing|combinations_optimizers|host_update_emulated|reducers_emulated|replay_emulated|shard_emulated|swapped_trainer_emulated)[.]cpp$")
string(APPEND cordee_seldom_sources "|/ops/engines/shapes_in_16_bits[.]cpp$")
#   the largest batch, found by runs: largest_batch.cpp and largest_batch_of_card.cpp compute it
string(APPEND cordee_seldom_sources "|/nn/(largest_batch_runs|sharpness_aware_emulated)[.]cpp$")

# Test cases that run for long: int8's accuracy after calibration (its error and its ranges stay), AutoWU's votes, steps of
# two ranks and of bf16 on an emulated GPU (one rank, and fp16, stay), and that a wait which is left out of an offload is found.
set(cordee_seldom_cases_train "calibrate: int8 evaluates as fp32*" "fit: ranks whose votes of AutoWU differ*"
  "emulated GPU: two ranks on one device*" "emulated GPU: bf16 trains*")
set(cordee_seldom_cases_nn "offload_activations: a wait that is left out*" "offload_weights: a wait that is left out*")

# Cases and types that tests compile where CORDEE_ALL_TESTS is defined, each beside one of the same law that stays.
set(cordee_seldom_types_train "goldens in fp32"
  "weights by block and recomputed blocks on an emulated GPU" "int8 on an emulated GPU, calibrated by the CPU"
  "int8 on an emulated GPU: frozen layers of the reference engine")
set(cordee_seldom_types_checkpoint "resume: networks of 16 bits" "memory policies on a GPU, emulated")
set(cordee_seldom_types_infer "ResNet-18 and ResNet-50 beside definitions and simulation")
set(cordee_seldom_types_laws "half precision: gradients of a residual network")
set(cordee_seldom_types_testing "optimizer laws of local_steps and clip around further optimizers")
set(cordee_seldom_types_nn "linear by convolutions, emulated, in bf16" "ResNet-18 and ResNet-50 of two engines")
set(cordee_seldom_types_ops_gpu "optimizers on a GPU, emulated: Adam's and RMSprop's forms, LARC, wrappers"
  "kernels in further number types, tests/support/number_types.hpp")

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

# cordee_seldom_cases(RESULT NAME): doctest's options that leave out the cases of the test NAME; its program test_NAME is
# compiled with all of its cases and types, or they are listed.
function(cordee_seldom_cases result name)
  set(cases ${cordee_sanitized_seldom_cases_${name}})
  if(NOT CORDEE_ALL_TESTS)
    list(APPEND cases ${cordee_seldom_cases_${name}})
    foreach(types IN LISTS cordee_seldom_types_${name})
      cordee_only_with_all("${name}:${types}")
    endforeach()
  else()
    target_compile_definitions(test_${name} PRIVATE CORDEE_ALL_TESTS)
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
