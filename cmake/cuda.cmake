# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds CUDA: sets cordee_found_cuda, with the target CUDA::cudart_static. Neither a driver nor a GPU is needed to
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
set(cordee_found_cuda OFF)
if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart_static)
  set(cordee_found_cuda ON)
endif()
set(cordee_cuda_absent
  "a CUDA compiler and the CUDA runtime, version 12 or later, which were not found: install the CUDA toolkit and put nvcc on the PATH, or set CMAKE_CUDA_COMPILER")
