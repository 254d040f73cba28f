# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What the builds with sanitizers leave out, and why. A sanitizer checks the code that runs: a second test of the
# same code on other types or longer adds minutes of compiling and no code.

set(cordee_asan OFF)
set(cordee_tsan OFF)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(cordee_tsan ON)
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(cordee_asan ON)
endif()

# Never built: ThreadSanitizer does not support fibers, on which the emulated GPU runs its threads; with any sanitizer
# an emulated trainer would run for many minutes.
set(cordee_not_sanitized "/trainer_emulated[.]cpp$")
set(cordee_not_tsan
  "/device/(gpu_kernel|warp)[.]cpp$|/ops/gpu/|${gpu_engines}|_emulated[.]cpp$|/train/([a-z0-9]+/)?(bad_label|enqueued_courier|graph_cache)[.]cpp$")

# Built for ThreadSanitizer with CORDEE_ALL_TESTS alone: tests of train/ that start no thread of their own kind. The
# trainer's threads are those of tests/comm and of trainer*, courier, bucket_exchange, server, fit and readback.
set(cordee_seldom_tsan "/train/([a-z0-9]+/)?(best|best_epoch|calibrate|combinations[a-z_]*|confusion_matrix|console|csv|describe|early_stopping|json_lines|step_log|tensorboard|mllog|evaluate|predict|fit_samples")
string(APPEND cordee_seldom_tsan "|goldens[a-z_]*|gradient_scaler|loss_scale|observe|pairing|planes|record|reducers")
string(APPEND cordee_seldom_tsan "|correct_bias|critical_batch|decided_batch|dropout|frozen_layers|gradient_noise[a-z_]*|kfac[a-z_]*|kronecker_factors")
string(APPEND cordee_seldom_tsan "|named_segment|quantization_report|recalibration|target_accuracy|trust_ratio_quantiles|weights_conversion")
string(APPEND cordee_seldom_tsan "|run_operations|run_state|same_loaders|same_trainers|settings|stability_check|step|step_status|weights")
# Shards and Muon's divisions are exchanged by the courier of the others, batches that grow are loaded by fit.cpp's threads.
# Adversarial images are made by the network, on the threads of its trainer.
string(APPEND cordee_seldom_tsan "|allreduce_record|fit_batches|fit_schedule|adversarial_trainer")
string(APPEND cordee_seldom_tsan "|callback_check|data_description|describe_memory|gradient_plane|gradient_ring|lent_gradients|loader_position")
string(APPEND cordee_seldom_tsan "|memory_plan|momentum_exchange|muon|muon_division|name_list|on_host_price|plan_warnings|preconditioner|residence")
string(APPEND cordee_seldom_tsan "|resumed_logs|segment_state|shard|shard_bytes|skip_limits|swapped_model)[.]cpp$")
# And of comm/, what has no thread, and reducers but for ring, gossip, native, server and compressed: each rank calls them on
# its own thread, and what they share is the transport.
string(APPEND cordee_seldom_tsan "|/comm/([a-z]+/)*(butterfly|compressed_widths|double_tree|encoded_wire|error_context|exact_method|gathered|low_rank")
string(APPEND cordee_seldom_tsan "|halving_doubling|hierarchical|host_info|launcher_environment|majority_vote|nodes|one_shot|power_of_two_remap|power_sgd")
string(APPEND cordee_seldom_tsan "|reducer_check|self_comm|solo|square_matrix|stability|topolog[a-z_/]*|torus_ring|tree|two_shot|two_stage|wire)[.]cpp$")

# The same for test cases. AddressSanitizer: the engines at the sides of the stages, whose tails and few pixels are
# those of the other cases, and repetitions with a register of 16 bytes beside the full one; types and widths of kernels
# are left out where the tests have them, support/further_types.hpp. ThreadSanitizer: bytes that a step copies, which
# need no second thread; equal bits of the ring, which its laws have too; the laws of mixing, whose messages are those
# of the other cases of gossip; and reports of random bytes, read by one thread. They run for minutes.
if(NOT CORDEE_ALL_TESTS)
  if(cordee_asan)
    set(cordee_sanitized_seldom_cases_ops "engine: the*stem*" "engine: 3x3*" "engine: 1x1*" "*several bands*16>*"
      "correlation: bits do not depend*16>*" "engine: fprop*_with<16>*")
  elseif(cordee_tsan)
    set(cordee_sanitized_seldom_cases_train "on_host: bytes on the device*")
    set(cordee_sanitized_seldom_cases_comm "ring: every rank ends with*" "gossip keeps the laws*" "failure_report: reports of random*")
  endif()
endif()

# cordee_leave_out_of_sanitized(LIST): removes from the list of sources what this build leaves out.
function(cordee_leave_out_of_sanitized list)
  set(sources ${${list}})
  if(cordee_asan OR cordee_tsan)
    list(FILTER sources EXCLUDE REGEX "${cordee_not_sanitized}")
  endif()
  if(cordee_tsan)
    list(FILTER sources EXCLUDE REGEX "${cordee_not_tsan}")
    if(NOT CORDEE_ALL_TESTS)
      set(seldom ${sources})
      list(FILTER seldom INCLUDE REGEX "${cordee_seldom_tsan}")
      list(FILTER sources EXCLUDE REGEX "${cordee_seldom_tsan}")
      list(TRANSFORM seldom REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/" "")
      cordee_only_with_all(${seldom})
    endif()
  endif()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()

# cordee_sanitized_options(TARGET FOLDER)
function(cordee_sanitized_options target folder)
  if(cordee_asan AND NOT CORDEE_ALL_TESTS AND folder STREQUAL "ops")
    target_compile_definitions(${target} PRIVATE CORDEE_SANITIZED_TESTS)
    cordee_only_with_all("${folder}:types and widths in FURTHER_TYPES, tests/support/further_types.hpp")
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=.*undefined" AND folder MATCHES "^ops")
    # Four more checks per memory access of a kernel; AddressSanitizer and the processor detect these errors.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment,object-size,pointer-overflow)
  endif()
endfunction()
