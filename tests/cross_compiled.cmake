# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What a build for another processor, whose programs run in an emulator, has of train/: trainers of the CPU that take steps,
# fit, and are compared with sums in double precision. The rest of it compiles for hours in all, for what has no instruction
# of its own.

set(cordee_cross_compiled_train "/train/(checks/same_trainers|fit|goldens|trainer)[.]cpp$")

# cordee_leave_out_of_cross_compiled(LIST): removes from the list of sources what such a build leaves out.
function(cordee_leave_out_of_cross_compiled list)
  if(CMAKE_CROSSCOMPILING)
    set(train ${${list}})
    list(FILTER train INCLUDE REGEX "/tests/train/")
    list(FILTER train EXCLUDE REGEX "${cordee_cross_compiled_train}")
    if(train)
      list(REMOVE_ITEM ${list} ${train})
    endif()
    set(${list} ${${list}} PARENT_SCOPE)
  endif()
endfunction()
