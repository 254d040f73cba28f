# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds oneDNN 2: sets cordee_found_onednn, CORDEE_ONEDNN_INCLUDE, CORDEE_ONEDNN_LIBRARY and CORDEE_ONEDNN_OPENMP
# (libgomp, which oneDNN uses). Debian's CMake package of oneDNN is not used because it requires OpenCL's headers.
find_path(CORDEE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(CORDEE_ONEDNN_LIBRARY dnnl)
find_library(CORDEE_ONEDNN_OPENMP NAMES gomp libgomp.so.1)
mark_as_advanced(CORDEE_ONEDNN_INCLUDE CORDEE_ONEDNN_LIBRARY CORDEE_ONEDNN_OPENMP)
set(cordee_found_onednn OFF)
if(CORDEE_ONEDNN_INCLUDE AND CORDEE_ONEDNN_LIBRARY AND CORDEE_ONEDNN_OPENMP)
  file(STRINGS ${CORDEE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h version REGEX "DNNL_VERSION_MAJOR 2$")
  if(version)
    set(cordee_found_onednn ON)
  endif()
endif()
set(cordee_onednn_absent "oneDNN 2, which was not found: install libdnnl-dev")
