# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The instruction sets for which programs are compiled that choose one when they start (cordee_infer,
# cordee_add_executable). Installed with the package.
#
# Sets cordee_isas: those of the target's processor, the fastest first; and for each cordee_isa_needs_NAME: what its code is
# compiled with, and what the processor is asked for. The options' names are those of __builtin_cpu_supports, of which
# whether the system saves the registers is a part; but AMX's registers are requested of the system, which may refuse.
set(cordee_isas baseline)
set(cordee_isa_needs_baseline)
set(cordee_isa_any_processor)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(cordee_isas avx512_amx avx512_bf16 avx512_vnni avx512 avx_vnni avx2 baseline)
  set(cordee_isa_any_processor -march=x86-64)
  set(cordee_isa_needs_avx2 avx2 fma bmi bmi2 popcnt)
  set(cordee_isa_needs_avx_vnni ${cordee_isa_needs_avx2} avxvnni)
  set(cordee_isa_needs_avx512 ${cordee_isa_needs_avx2} avx512f avx512bw avx512cd avx512dq avx512vl)
  set(cordee_isa_needs_avx512_vnni ${cordee_isa_needs_avx512} avx512vnni)
  set(cordee_isa_needs_avx512_bf16 ${cordee_isa_needs_avx512_vnni} avx512bf16)
  set(cordee_isa_needs_avx512_amx ${cordee_isa_needs_avx512_bf16} amx-tile amx-bf16 amx-int8)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(cordee_isas i8mm_bf16 dotprod baseline)
  set(cordee_isa_any_processor -march=armv8-a)
  set(cordee_isa_needs_dotprod dotprod)
  set(cordee_isa_needs_i8mm_bf16 dotprod i8mm bf16)
endif()

# cordee_isa_options(<variable> <need>...): the options that code of these needs is compiled with.
function(cordee_isa_options variable)
  set(needs ${ARGN})
  set(options ${cordee_isa_any_processor})
  if(needs AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(JOIN needs "+" extensions)
    set(options -march=armv8.2-a+${extensions})
  else()
    list(TRANSFORM needs PREPEND "-m")
    list(APPEND options ${needs})
  endif()
  set(${variable} ${options} PARENT_SCOPE)
endfunction()

# cordee_isa_supported(<variable> <need>...): expressions that ask processor and system for them. Arm's need <sys/auxv.h>.
function(cordee_isa_supported variable)
  set(supported ${ARGN})
  if(supported AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(TRANSFORM supported TOUPPER)
    list(TRANSFORM supported REPLACE "(I8MM|BF16)" "(getauxval(AT_HWCAP2) & HWCAP2_\\1) != 0")
    list(TRANSFORM supported REPLACE "DOTPROD" "(getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0")
    list(PREPEND supported "(getauxval(AT_HWCAP) & HWCAP_ATOMICS) != 0")  # of armv8.2-a, beside those
  else()
    list(TRANSFORM supported REPLACE "(.+)" "__builtin_cpu_supports(\"\\1\")")
  endif()
  set(${variable} ${supported} PARENT_SCOPE)
endfunction()

# cordee_isa_macro(<variable> <need>): the macro that a compiler defines for it.
function(cordee_isa_macro variable need)
  set(dotprod __ARM_FEATURE_DOTPROD)
  set(i8mm __ARM_FEATURE_MATMUL_INT8)
  set(bf16 __ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  set(sve __ARM_FEATURE_SVE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(${variable} ${${need}} PARENT_SCOPE)
  else()
    string(TOUPPER __${need}__ macro)
    string(REPLACE "-" "_" macro ${macro})
    set(${variable} ${macro} PARENT_SCOPE)
  endif()
endfunction()
