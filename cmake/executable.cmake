# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# cordee_add_executable(<name> ISAS <isa>... SOURCES <file>... [LIBRARIES <target>...])
#
# Adds a program that runs on many processors: the sources are compiled once for each of the instruction sets avx512_amx
# (Sapphire Rapids), avx512_bf16 (Zen 4), avx512_vnni, avx512, avx_vnni, avx2 (about x86-64-v3) and baseline (any processor). `main` stays
# as it is. ${<name>_TARGETS} lists the targets: <name>-<isa>, the programs, and <name>, which replaces itself by the
# program for the fastest instruction set that processor and system support, or for the one that the environment's
# CORDEE_ISA names. On Intel's processors avx512_bf16 is slower than avx512 or avx512_vnni, one of which is started if it is
# among them. All stay in one folder: install(TARGETS ${<name>_TARGETS}). LIBRARIES may contain an INTERFACE library with
# definitions and options.
#
# Why several programs, and not one with several objects as cordee_infer: objects compiled for different instructions must
# not share inline functions, for the linker takes one copy for all (of std::vector<float>::push_back, say). cordee_infer
# makes the symbols of each object local, which suffices since it has no static constructors. In a program the
# constructors of all objects run before main, including those that the processor cannot execute, and static libraries
# have inline functions, too. Separate programs share nothing. Process id, arguments, environment and open files remain,
# so mpirun and debuggers see one process.
function(cordee_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ISAS;SOURCES;LIBRARIES")
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/isas.cmake)
  list(JOIN cordee_isas ", " known)
  foreach(part ISAS SOURCES)
    if(NOT arg_${part})
      message(FATAL_ERROR "cordee_add_executable(${name}): no ${part}; it needs SOURCES and, as ISAS, some of ${known}")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cordee_add_executable(${name}): ${arg_UNPARSED_ARGUMENTS} is neither ISAS nor SOURCES nor LIBRARIES")
  endif()
  foreach(isa IN LISTS arg_ISAS)
    if(NOT isa IN_LIST cordee_isas)
      message(FATAL_ERROR "cordee_add_executable(${name}): ISAS has ${isa}; for ${CMAKE_SYSTEM_PROCESSOR} there are ${known}")
    endif()
  endforeach()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/cordee/${name})
  set(programs "")
  set(targets ${name})
  foreach(isa IN LISTS cordee_isas)  # the fastest first
    if(NOT isa IN_LIST arg_ISAS)
      continue()
    endif()
    set(needs ${cordee_isa_needs_${isa}})
    if(needs MATCHES "avx2")
      list(APPEND needs f16c)  # which clang's __builtin_cpu_supports does not know: launcher.cpp
    endif()
    cordee_add_program(${name}-${isa} ${folder} "${needs}" ${arg_SOURCES})
    target_link_libraries(${name}-${isa} PRIVATE ${arg_LIBRARIES})
    list(APPEND targets ${name}-${isa})
    set(asked ${needs})
    list(FILTER asked EXCLUDE REGEX "^amx-")
    cordee_isa_supported(supported ${asked})
    list(TRANSFORM supported REPLACE "^__builtin_cpu_supports..(f16c|avxvnni)..$" "supports_\\1()")
    if("${needs}" MATCHES "amx-")
      list(APPEND supported "supports_amx()")
    endif()
    list(JOIN supported " && " supported)
    if(NOT supported)
      set(supported true)
    endif()
    # Intel's vectors take longer for a product of bf16 than for one of fp32 (ops/engines/default.hpp).
    set(preferred true)
    if(isa STREQUAL "avx512_bf16" AND arg_ISAS MATCHES "avx512(_vnni)?(;|$)")
      set(preferred "__builtin_cpu_is(\"intel\") == 0")
    endif()
    string(APPEND programs
      "CORDEE_PROGRAM(\"${isa}\", \"$<TARGET_FILE_NAME:${name}-${isa}>\", ${supported}, ${preferred})\n")
  endforeach()
  file(GENERATE OUTPUT ${folder}/$<CONFIG>/programs.inc CONTENT "${programs}")
  cordee_add_program(${name} ${folder} "" ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/launcher.cpp)
  target_include_directories(${name} PRIVATE ${folder}/$<CONFIG>)
  target_compile_definitions(${name} PRIVATE CORDEE_PROGRAM_NAME="${name}")
  set(${name}_TARGETS ${targets} PARENT_SCOPE)
endfunction()

# Adds an executable that is compiled for the needed instructions, and is an error if other options allow further ones:
# those of CMAKE_CXX_FLAGS come before, those of libraries behind.
function(cordee_add_program name folder needs)
  cordee_isa_options(options ${needs})
  set(wrong 0)
  if(cordee_isa_any_processor)
    set(every sse3 f16c)
    if(NOT "avx2" IN_LIST cordee_isas)
      set(every sve)
    endif()
    foreach(isa IN LISTS cordee_isas)
      list(APPEND every ${cordee_isa_needs_${isa}})
    endforeach()
    list(REMOVE_DUPLICATES every)
    foreach(feature IN LISTS every)
      cordee_isa_macro(macro ${feature})
      if(feature IN_LIST needs)
        string(APPEND wrong " || !defined(${macro})")
      elseif(NOT feature STREQUAL "sse3" OR NOT needs)
        string(APPEND wrong " || defined(${macro})")
      endif()
    endforeach()
  endif()
  list(JOIN options " " words)
  list(JOIN options "," for_nvcc)
  file(CONFIGURE OUTPUT ${folder}/${name}.cpp @ONLY CONTENT [[
#if @wrong@
#error @name@ is compiled with @words@: no other -m options and no -march in CMAKE_CXX_FLAGS or of LIBRARIES
#endif
]])
  add_executable(${name} ${folder}/${name}.cpp ${ARGN})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:${options}>)
  if(for_nvcc)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${for_nvcc}>)
  endif()
endfunction()
