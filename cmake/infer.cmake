# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The C library of integer networks, for programs that only deploy them: any C compiler can use it. Its soname is the
# version of its interface.
#
# It has src/infer_variant.cpp several times, compiled for different instructions, and chooses one when a network is opened.
# Variants must not share functions: an inline function that the linker took from one of them would have its instructions
# in all. So each becomes one object without groups that a linker could merge (ld -r --force-group-allocation), in which
# every symbol but the table of its functions is local.
set(CORDEE_INFER_ISAS AUTO CACHE STRING
  "Instruction sets that cordee_infer has variants for, the fastest first: AUTO, or a list of avx512_amx, avx512_vnni, avx_vnni, avx2, baseline; on Arm i8mm_bf16, dotprod, baseline")
include(${CMAKE_CURRENT_LIST_DIR}/isas.cmake)
set(cordee_infer_known ${cordee_isas})
list(REMOVE_ITEM cordee_infer_known avx512_bf16 avx512)  # an integer network has no bf16; without VNNI it gains little
set(cordee_infer_isas ${cordee_infer_known})
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # clang 16 cannot ask for it
  list(REMOVE_ITEM cordee_infer_isas avx_vnni)
endif()
if(NOT CORDEE_INFER_ISAS STREQUAL "AUTO")
  set(cordee_infer_isas ${CORDEE_INFER_ISAS})
elseif(NOT CORDEE_INFER AND NOT CORDEE_ALL_TESTS)  # for the tests
  list(REMOVE_ITEM cordee_infer_isas avx512_amx avx512_vnni avx_vnni)
endif()
foreach(isa IN LISTS cordee_infer_isas)
  if(NOT isa IN_LIST cordee_infer_known)
    message(FATAL_ERROR "CORDEE_INFER_ISAS=${CORDEE_INFER_ISAS}: for ${CMAKE_SYSTEM_PROCESSOR} there are ${cordee_infer_known}")
  endif()
endforeach()
list(LENGTH cordee_infer_isas infer_variants)
if(infer_variants EQUAL 0)
  message(FATAL_ERROR "CORDEE_INFER_ISAS is empty: AUTO, or a list of ${cordee_infer_known}")
endif()

if(infer_variants GREATER 1)
  # CMake takes LLVM's linker for clang: GNU's may stand beside it.
  set(infer_linker ${CMAKE_LINKER})
  execute_process(COMMAND "${infer_linker}" --help OUTPUT_VARIABLE linker_help ERROR_QUIET)
  if(NOT linker_help MATCHES "--force-group-allocation" AND NOT CMAKE_CROSSCOMPILING)
    find_program(CORDEE_GNU_LINKER NAMES ld.bfd ld DOC "GNU ld, which joins the objects of cordee_infer's variants")
    mark_as_advanced(CORDEE_GNU_LINKER)
    set(infer_linker ${CORDEE_GNU_LINKER})
    execute_process(COMMAND "${infer_linker}" --help OUTPUT_VARIABLE linker_help ERROR_QUIET)
  endif()
  if(NOT CMAKE_OBJCOPY OR NOT linker_help MATCHES "--force-group-allocation")
    set(cordee_infer_absent "GNU ld and objcopy, which keep variants for several processors apart: install binutils (CMAKE_LINKER is ${CMAKE_LINKER}, CMAKE_OBJCOPY is ${CMAKE_OBJCOPY}), or set CORDEE_INFER_ISAS to one of ${cordee_infer_known}")
    if(CORDEE_INFER)
      message(FATAL_ERROR "CORDEE_INFER=ON needs ${cordee_infer_absent}")
    endif()
    return()
  endif()
endif()

file(STRINGS include/cordee_infer.h infer_abi REGEX "#define CORDEE_INFER_ABI ")
string(REGEX MATCH "[0-9]+" infer_abi "${infer_abi}")
set(infer_folder ${CMAKE_CURRENT_BINARY_DIR}/infer)
set(cordee_infer_objects)
set(infer_list "")
foreach(isa IN LISTS cordee_infer_isas)
  set(needs ${cordee_isa_needs_${isa}})
  add_library(cordee_infer_${isa} OBJECT src/infer_variant.cpp)
  target_link_libraries(cordee_infer_${isa} PRIVATE cordee)
  target_compile_definitions(cordee_infer_${isa} PRIVATE CORDEE_INFER_ISA=${isa})
  set_target_properties(cordee_infer_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  cordee_isa_options(options ${needs})
  target_compile_options(cordee_infer_${isa} PRIVATE ${options} -fno-lto
    $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set(tiles ${needs})
  list(FILTER tiles INCLUDE REGEX "^amx-")
  list(FILTER needs EXCLUDE REGEX "^amx-")
  cordee_isa_supported(supported ${needs})
  if(tiles)
    list(APPEND supported "cordee::detail::ops::request_tiles().granted")
  endif()
  list(JOIN supported " && " supported)
  if(NOT supported)
    set(supported true)
  endif()
  string(APPEND infer_list "CORDEE_INFER_VARIANT(${isa}, ${supported})\n")
  if(infer_variants EQUAL 1)
    list(APPEND cordee_infer_objects $<TARGET_OBJECTS:cordee_infer_${isa}>)
    continue()
  endif()
  add_custom_command(OUTPUT ${infer_folder}/${isa}.o VERBATIM
    DEPENDS cordee_infer_${isa} $<TARGET_OBJECTS:cordee_infer_${isa}>
    COMMAND ${infer_linker} -r --force-group-allocation $<TARGET_OBJECTS:cordee_infer_${isa}> -o ${infer_folder}/${isa}.joined.o
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=infer_variant_${isa} ${infer_folder}/${isa}.joined.o ${infer_folder}/${isa}.o)
  set_source_files_properties(${infer_folder}/${isa}.o PROPERTIES GENERATED ON EXTERNAL_OBJECT ON)
  list(APPEND cordee_infer_objects ${infer_folder}/${isa}.o)
endforeach()
file(MAKE_DIRECTORY ${infer_folder})
file(CONFIGURE OUTPUT ${infer_folder}/infer_variants.inc CONTENT "${infer_list}" @ONLY)

add_library(cordee_infer SHARED src/cordee_infer.cpp ${cordee_infer_objects})
target_include_directories(cordee_infer PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> PRIVATE ${infer_folder})
target_compile_options(cordee_infer PRIVATE ${cordee_isa_any_processor} -fno-lto)
target_link_libraries(cordee_infer PRIVATE cordee)
target_link_options(cordee_infer PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/cordee_infer.map)
set_target_properties(cordee_infer PROPERTIES VERSION ${infer_abi}.${PROJECT_VERSION} SOVERSION ${infer_abi}
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/cordee_infer.map)
