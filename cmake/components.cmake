# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The components. Each is registered by one call of cordee_component, from which follow its target, option, installation
# and line of the summary (component_targets.cmake), find_package (cordee-config.cmake, which is installed with this
# file), its exemption from the umbrella (umbrella.cmake), and tests of its headers, of its installation and of what it
# needs. A component's dependencies precede it.
#
# cordee_component(NAME
#   HEADERS regex      # which headers are its own: paths from include/; the last component that matches has a header
#   ABSENT sentence    # "what it needs, which was not found: install PACKAGE-dev"
#   [OPTION default]   # option CORDEE_NAME, AUTO in this build; within another project AUTO, OFF, or CUDA: AUTO if that
#                      # project is compiled with CUDA, else OFF. Without OPTION it is always looked for.
#   [NEEDS component...]
#   [PACKAGES ...] [TARGETS target...]  # arguments of find_package, quoted; targets that are then there and are linked
#   [FILES ...]        # "VARIABLE name...": the folder of a header if VARIABLE ends in _INCLUDE, else a library to link
#   [CONTAINS variable file regex]      # FILE in a folder of VARIABLE has a line that matches, or the version is wrong
#   [MODULE file])     # what else finds it: a file that sets cordee_found_NAME to OFF where it is not
set(cordee_components)
set(cordee_components_folder ${CMAKE_CURRENT_LIST_DIR})
function(cordee_component name)
  set(keywords HEADERS ABSENT OPTION NEEDS PACKAGES TARGETS FILES CONTAINS MODULE)
  cmake_parse_arguments(own "" "" "${keywords}" ${ARGN})
  if(own_UNPARSED_ARGUMENTS OR NOT own_HEADERS OR NOT own_ABSENT)
    message(FATAL_ERROR "cordee_component(${name}) needs HEADERS and ABSENT, and knows no \"${own_UNPARSED_ARGUMENTS}\"")
  endif()
  foreach(keyword IN LISTS keywords)
    set(cordee_${name}_${keyword} "${own_${keyword}}" PARENT_SCOPE)
  endforeach()
  set(cordee_components ${cordee_components} ${name} PARENT_SCOPE)
endfunction()

cordee_component(testing HEADERS "/testing/" PACKAGES doctest TARGETS doctest::doctest
  ABSENT "doctest, which was not found: install doctest-dev")
cordee_component(checkpoint HEADERS "/checkpoint/" OPTION AUTO
  PACKAGES "nlohmann_json 3.2" TARGETS nlohmann_json::nlohmann_json
  FILES "CORDEE_XXHASH_LIBRARY xxhash" "CORDEE_XXHASH_INCLUDE xxhash.h"
  ABSENT "nlohmann-json 3.2 and xxHash 0.8, of which one was not found: install nlohmann-json3-dev and libxxhash-dev")
cordee_component(images HEADERS "/images/" OPTION AUTO PACKAGES JPEG PNG TARGETS JPEG::JPEG PNG::PNG
  CONTAINS JPEG_INCLUDE_DIRS jpeglib.h jpeg_crop_scanline  # other libjpegs cannot decode a region
  ABSENT "libjpeg-turbo 1.5 and libpng 1.6, of which one was not found: install libjpeg-dev and libpng-dev")
cordee_component(webdataset HEADERS "/images/(webdataset|tar_)" OPTION AUTO NEEDS images
  PACKAGES "LibArchive 3.3" TARGETS LibArchive::LibArchive
  ABSENT "libarchive 3.3, which was not found: install libarchive-dev")
cordee_component(simulated HEADERS "/simulated[._/]" OPTION OFF
  PACKAGES "Boost 1.74 COMPONENTS context" TARGETS Boost::context
  ABSENT "Boost.Context 1.74, which was not found: install libboost-context-dev")
cordee_component(zeromq HEADERS "/zeromq[._/]" OPTION OFF
  FILES "CORDEE_ZEROMQ_LIBRARY zmq" "CORDEE_ZEROMQ_INCLUDE zmq.h"
  CONTAINS CORDEE_ZEROMQ_INCLUDE zmq.h ZMQ_CONNECT_TIMEOUT  # which 4.2 introduced
  ABSENT "libzmq, version 4.2 or later, which was not found: install libzmq3-dev")
cordee_component(mpi HEADERS "/mpi[._/]" OPTION OFF PACKAGES "MPI 3.0 COMPONENTS CXX" TARGETS MPI::MPI_CXX
  ABSENT "an MPI, version 3 or later, which was not found: install libopenmpi-dev or libmpich-dev")
cordee_component(libtorch HEADERS "/libtorch[./]" OPTION OFF PACKAGES "Torch 1.13" TARGETS torch
  FILES "CORDEE_C10_LIBRARY c10"
  ABSENT "LibTorch, version 1.13 or later, which was not found: install libtorch-dev, or put the folder torch of PyTorch's wheel into CMAKE_PREFIX_PATH")
cordee_component(cuda OPTION CUDA MODULE cuda.cmake TARGETS CUDA::cudart_static
  HEADERS "/ops/gpu/|/engines/(cudnn|tensor_core)/|/engines/reference/gpu[.]hpp$|/cuda_|[.]cuh$"
  ABSENT "a CUDA compiler and the CUDA runtime, version 12 or later, which were not found: install the CUDA toolkit and put nvcc on the PATH, or set CMAKE_CUDA_COMPILER")
cordee_component(nccl HEADERS "/nccl[._/]" OPTION CUDA NEEDS cuda PACKAGES "NCCL 2.14" TARGETS NCCL::nccl
  ABSENT "NCCL 2.14 or later, which was not found beside CUDA: install libnccl-dev or nvidia-nccl-cu12, or set NCCL_INCLUDE_DIR and NCCL_LIBRARY")

# Components that this version does not have. A request for one, by an option (CORDEE_TIFF=ON) or by find_package, is a
# configure error with that component's message; there is no silent fallback.
set(cordee_absent onednn tiff)
set(cordee_absent_onednn "this version of cordee has no engine onednn; leave the component out: a network that names no engine runs on winograd or direct")
set(cordee_absent_tiff "this version of cordee reads no TIFF; convert the images to JPEG or PNG, which cordee::images reads")

if(POLICY CMP0167)  # from CMake 3.30 on, which warns of its own FindBoost: Boost's configuration is found
  cmake_policy(SET CMP0167 NEW)
endif()
# cordee_find_component(NAME): sets cordee_found_NAME and, for programs that use it, cordee_links_NAME and
# cordee_includes_NAME; and cordee_missing_NAME, what to print where it was not found.
macro(cordee_find_component name)
  set(cordee_found_${name} ON)
  set(cordee_missing_${name} "${cordee_${name}_ABSENT}")
  set(cordee_links_${name} ${cordee_${name}_TARGETS})
  set(cordee_includes_${name})
  foreach(cordee_item IN LISTS cordee_${name}_NEEDS)
    if(NOT cordee_found_${cordee_item})
      set(cordee_found_${name} OFF)
      set(cordee_missing_${name} "the component ${cordee_item}, which needs ${cordee_missing_${cordee_item}}")
    endif()
  endforeach()
  if(cordee_found_${name} AND cordee_${name}_MODULE)
    include(${cordee_components_folder}/${cordee_${name}_MODULE})
  endif()
  if(cordee_found_${name})
    set(MPI_CXX_SKIP_MPICXX ON)  # MPI without its own C++ bindings
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # a project that adds this one by FetchContent links Torch's targets, too
    list(PREPEND CMAKE_MODULE_PATH ${cordee_components_folder})
    foreach(cordee_arguments IN LISTS cordee_${name}_PACKAGES)
      separate_arguments(cordee_arguments)
      find_package(${cordee_arguments} QUIET)
    endforeach()
    list(POP_FRONT CMAKE_MODULE_PATH)
    foreach(cordee_item IN LISTS cordee_${name}_TARGETS)
      if(NOT TARGET ${cordee_item})
        set(cordee_found_${name} OFF)
      endif()
    endforeach()
    foreach(cordee_arguments IN LISTS cordee_${name}_FILES)
      separate_arguments(cordee_arguments)
      list(POP_FRONT cordee_arguments cordee_item)
      if(cordee_item MATCHES "_INCLUDE$")
        find_path(${cordee_item} NAMES ${cordee_arguments})
        list(APPEND cordee_includes_${name} ${${cordee_item}})
      else()
        find_library(${cordee_item} NAMES ${cordee_arguments})
        list(APPEND cordee_links_${name} ${${cordee_item}})
      endif()
      mark_as_advanced(${cordee_item})
      if(NOT ${cordee_item})
        set(cordee_found_${name} OFF)
      endif()
    endforeach()
  endif()
  if(cordee_found_${name} AND cordee_${name}_CONTAINS)
    list(GET cordee_${name}_CONTAINS 0 cordee_folders)
    list(GET cordee_${name}_CONTAINS 1 cordee_item)
    list(GET cordee_${name}_CONTAINS 2 cordee_pattern)
    set(cordee_lines)
    foreach(cordee_folder IN LISTS ${cordee_folders})
      if(EXISTS ${cordee_folder}/${cordee_item})
        file(STRINGS ${cordee_folder}/${cordee_item} cordee_lines REGEX "${cordee_pattern}")
        break()  # a compiler reads the first
      endif()
    endforeach()
    if(NOT cordee_lines)
      set(cordee_found_${name} OFF)
    endif()
  endif()
endmacro()
