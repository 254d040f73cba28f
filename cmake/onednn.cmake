# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Where oneDNN 2 is: cordee_finds_onednn, and then cordee_onednn_include and cordee_onednn_libraries. Debian's
# own package file is not asked, for it wants OpenCL's headers. gomp is the OpenMP that oneDNN runs on.
find_path(CORDEE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(CORDEE_ONEDNN_LIBRARY dnnl)
find_library(CORDEE_ONEDNN_OPENMP NAMES gomp libgomp.so.1)
mark_as_advanced(CORDEE_ONEDNN_INCLUDE CORDEE_ONEDNN_LIBRARY CORDEE_ONEDNN_OPENMP)
set(cordee_finds_onednn OFF)
if(CORDEE_ONEDNN_INCLUDE AND CORDEE_ONEDNN_LIBRARY AND CORDEE_ONEDNN_OPENMP)
  file(STRINGS ${CORDEE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h version REGEX "DNNL_VERSION_MAJOR 2$")
  if(version)
    set(cordee_finds_onednn ON)
  endif()
endif()
set(cordee_onednn_absent "oneDNN 2, which was not found: install libdnnl-dev")
