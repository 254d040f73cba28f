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
  "/device/(gpu_kernel|warp)[.]cpp$|/ops/gpu/|${gpu_engines}|_emulated[.]cpp$|/train/graph_cache[.]cpp$")

# Built for ThreadSanitizer with CORDEE_ALL_TESTS alone: instantiations of the trainer with each optimizer and reducer
# (combinations*), whose threads are those of tests/comm and of trainer*.cpp; sequences of updates against golden
# numbers (goldens*); the arithmetic of a calibration in int8, whose exchanges are those of observe.cpp.
set(cordee_seldom_tsan "/train/(combinations[a-z_]*|goldens[a-z_]*|calibrate)[.]cpp$")
# The same for a test case: an int8 network learns for a minute, with exchanges that the shorter cases make, too.
if(cordee_tsan AND NOT CORDEE_ALL_TESTS)
  set(cordee_leave_out_train "--test-case-exclude=int8: learns as fp32 does*")
  cordee_only_with_all("train/observe.cpp:learns")
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
