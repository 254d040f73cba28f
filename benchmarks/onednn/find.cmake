# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The target bench_onednn, where oneDNN 2 is found: the engine that benchmarks compare the library's own with. Debian's
# CMake package of oneDNN is not used because it requires OpenCL's headers; libgomp is used by oneDNN.
include_guard(GLOBAL)
find_path(CORDEE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(CORDEE_ONEDNN_LIBRARY dnnl)
find_library(CORDEE_ONEDNN_OPENMP NAMES gomp libgomp.so.1)
mark_as_advanced(CORDEE_ONEDNN_INCLUDE CORDEE_ONEDNN_LIBRARY CORDEE_ONEDNN_OPENMP)
if(CORDEE_ONEDNN_INCLUDE AND CORDEE_ONEDNN_LIBRARY AND CORDEE_ONEDNN_OPENMP)
  file(STRINGS ${CORDEE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h version REGEX "DNNL_VERSION_MAJOR 2$")
  if(version)
    add_library(bench_onednn INTERFACE)
    target_include_directories(bench_onednn SYSTEM INTERFACE ${CORDEE_ONEDNN_INCLUDE})
    target_link_libraries(bench_onednn INTERFACE cordee ${CORDEE_ONEDNN_LIBRARY} ${CORDEE_ONEDNN_OPENMP})
  endif()
endif()
