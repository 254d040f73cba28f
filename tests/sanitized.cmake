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
  "/device/(gpu_kernel|warp)[.]cpp$|/ops/gpu/|${gpu_engines}|_emulated[.]cpp$|/train/(bad_label|enqueued_courier|graph_cache)[.]cpp$")

# Built for ThreadSanitizer with CORDEE_ALL_TESTS alone: tests of train/ that start no thread of their own kind. The
# trainer's threads are those of tests/comm and of trainer*, courier, bucket_exchange, fit and readback.
set(cordee_seldom_tsan "/train/(combinations[a-z_]*|goldens[a-z_]*|calibrate|console|csv|describe|gradient_scaler")
string(APPEND cordee_seldom_tsan "|loss_scale|observe|pairing|planes|record|reducers|same_table|stability_check|step")
string(APPEND cordee_seldom_tsan "|step_status|weights)[.]cpp$")

# The same for test cases under AddressSanitizer: the engines at the sides of the stages, whose tails and few pixels are
# those of the other cases; they run for minutes.
if(cordee_asan AND NOT CORDEE_ALL_TESTS)
  set(cordee_leave_out_ops "--test-case-exclude=engine: the*stem*,engine: 3x3*,engine: 1x1*")
  cordee_only_with_all("tests/support/engine_shapes.hpp:stages")
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
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=.*undefined" AND folder MATCHES "^ops")
    # Four more checks per memory access of a kernel; AddressSanitizer and the processor detect these errors.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment,object-size,pointer-overflow)
  endif()
endfunction()
