# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds CUDA: sets cordee_found_cuda to OFF without a compiler; the target is CUDA::cudart_static. Neither a driver nor a GPU is needed to
# compile; programs that are run without them fail with a message.
include(CheckLanguage)
check_language(CUDA)
# The compiler's own toolkit, even if another nvcc is on the PATH. Python packages contain only versioned library names.
if(CMAKE_CUDA_COMPILER AND NOT DEFINED CUDAToolkit_ROOT)
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cordee_cuda_folder)
  cmake_path(GET cordee_cuda_folder PARENT_PATH CUDAToolkit_ROOT)
endif()
find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12
  PATHS ${CUDAToolkit_ROOT} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
find_package(CUDAToolkit 12 QUIET)
if(NOT CMAKE_CUDA_COMPILER)
  set(cordee_found_cuda OFF)
endif()

# The kernels need compute capability 8.0 (cp.async, 16-bit tensor cores). A project whose languages have CUDA before
# cordee is added gets the compiler's default from CMake, nvcc 13's being 75. So when all of the project has been read,
# an error names the first target that links cordee::cuda or cordee::nccl and is compiled for less.
function(cordee_check_cuda_architectures directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(architectures ${target} CUDA_ARCHITECTURES)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(sources ${target} SOURCES)
    if(NOT libraries MATCHES "(^|;)cordee(::|_)(cuda|nccl)(;|$)" OR NOT "${sources}" MATCHES "[.]cu(;|$)")
      continue()
    endif()
    foreach(architecture IN LISTS architectures)
      string(REGEX MATCH "^[0-9]+" number "${architecture}")
      if((number AND number LESS 80) OR architecture MATCHES "^all")
        message(FATAL_ERROR "${target} is compiled for the GPU architectures ${architectures}, but cordee::cuda needs 80 or later: configure with -D CMAKE_CUDA_ARCHITECTURES=90 (an H100 or H200; 80 is an A100), or set it before project()")
      endif()
    endforeach()
  endforeach()
  get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    cordee_check_cuda_architectures(${folder})
  endforeach()
endfunction()
function(cordee_check_cuda_architectures_at_end)
  get_property(is_called GLOBAL PROPERTY cordee_checks_cuda_architectures)
  if(NOT is_called)
    set_property(GLOBAL PROPERTY cordee_checks_cuda_architectures ON)
    cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL cordee_check_cuda_architectures ${CMAKE_SOURCE_DIR})
  endif()
endfunction()
