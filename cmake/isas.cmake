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
