# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# An overlay port of the tree that it lies in: vcpkg install cordee --overlay-ports=packaging/vcpkg. In a registry of
# ports SOURCE_PATH is that of vcpkg_from_github instead.
set(VCPKG_BUILD_TYPE release)  # headers alone
cmake_path(ABSOLUTE_PATH CURRENT_PORT_DIR NORMALIZE OUTPUT_VARIABLE port)
cmake_path(SET SOURCE_PATH NORMALIZE "${port}/../../..")

set(zlib OFF)
if("zlib" IN_LIST FEATURES)
  set(zlib ON)
endif()
# Components look for their libraries where a program asks for them: a feature installs what they need.
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS
  -DCORDEE_TESTS=OFF -DCORDEE_EXAMPLES=OFF -DCORDEE_BENCHMARKS=OFF -DCORDEE_COMPONENTS=OFF -DCORDEE_ZLIB=${zlib})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME cordee CONFIG_PATH share/cmake/cordee)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
