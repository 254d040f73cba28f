# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# `cpack -G DEB` in the build folder makes libcordee-dev: headers and CMake files, the same for every architecture; with
# CORDEE_INFER=ON also the shared library cordee_infer, so that the package is of the builder's architecture, which cpack
# asks dpkg for (of an RPM it is uname's), and depends on what dpkg-shlibdeps finds in the library.
# zlib is a dependency if this build found it, since the installed targets then link it.
set(CPACK_PACKAGE_NAME libcordee-dev)
set(CPACK_PACKAGE_VENDOR "the Cordee contributors")
set(CORDEE_MAINTAINER "the Cordee contributors <cordee@example.org>" CACHE STRING
  "Name and address in the Debian package: the one who builds it")
set(CPACK_PACKAGE_CONTACT "${CORDEE_MAINTAINER}")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian-doc.cmake)  # copyright and changelog
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)  # with the architecture
if(CORDEE_INFER)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
  set(CPACK_RPM_PACKAGE_ARCHITECTURE noarch)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "")
if(cordee_with_zlib)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS zlib1g-dev)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cmake (>= 3.25), g++ (>= 4:12) | clang (>= 1:16)")
set(suggested nvidia-cuda-toolkit)
foreach(component IN LISTS cordee_components)
  string(REGEX MATCHALL "[a-z0-9-]+-dev( or [a-z0-9-]+-dev)*" packages "${cordee_${component}_ABSENT}")
  list(APPEND suggested ${packages})
endforeach()
list(REMOVE_DUPLICATES suggested)
list(SORT suggested)
list(JOIN suggested ", " CPACK_DEBIAN_PACKAGE_SUGGESTS)
string(REPLACE " or " " | " CPACK_DEBIAN_PACKAGE_SUGGESTS "${CPACK_DEBIAN_PACKAGE_SUGGESTS}")
list(JOIN cordee_components ", " components)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Cordee is a header-only library of C++20 and CUDA. Precision, optimizer,
learning-rate schedule and reducer are types, a trainer is their composition,
checked when it compiles. Ranks are threads, or processes over MPI or NCCL.
.
A program uses it with find_package(cordee). Its components are
${components};
each needs one or two of the suggested packages.")
include(CPack)
