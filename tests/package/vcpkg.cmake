# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the vcpkg port with doubles of vcpkg's functions, which do what vcpkg's documentation says.
# Usage: cmake -D PORT=folder of portfile.cmake -D WORK=folder -D COMPILER=g++ -P vcpkg.cmake
cmake_minimum_required(VERSION 3.25)
set(CURRENT_PORT_DIR ${PORT})
set(CURRENT_PACKAGES_DIR ${WORK}/packages/cordee)
set(FEATURES core)

function(vcpkg_cmake_configure)
  cmake_parse_arguments(arg "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${WORK}/buildtrees
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}
    ${arg_OPTIONS} OUTPUT_QUIET ERROR_VARIABLE messages COMMAND_ERROR_IS_FATAL ANY)
  if(messages MATCHES "Manually-specified variables were not used")  # an option that the project does not have
    message(FATAL_ERROR "${messages}")
  endif()
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${WORK}/buildtrees OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)  # share/cmake/NAME becomes share/NAME, and paths relative to it follow
  cmake_parse_arguments(arg "" "PACKAGE_NAME;CONFIG_PATH" "" ${ARGN})
  set(to ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${to})
  file(GLOB files ${to}/*.cmake)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE "/../../../" "/../../" text "${text}")
    string(REPLACE "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nif(_IMPORT_PREFIX STREQUAL" "if(_IMPORT_PREFIX STREQUAL" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(arg "" "" "FILE_LIST" ${ARGN})
  file(COPY_FILE ${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/cordee/copyright)
endfunction()

include(${PORT}/portfile.cmake)
# What vcpkg's checks of a package of headers refuse.
file(GLOB top RELATIVE ${CURRENT_PACKAGES_DIR} ${CURRENT_PACKAGES_DIR}/*)
list(SORT top)
if(NOT top STREQUAL "include;share")
  message(FATAL_ERROR "the port installs ${top}")
endif()
file(READ ${PORT}/vcpkg.json json)
string(JSON version GET "${json}" version-semver)
file(READ ${CURRENT_PACKAGES_DIR}/share/cordee/cordee-config-version.cmake text)
string(FIND "${text}" "\"${version}\"" position)
if(position EQUAL -1)
  message(FATAL_ERROR "vcpkg.json has version ${version}, the library another")
endif()
