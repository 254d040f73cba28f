# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Where CUDA is: cordee_finds_cuda, with the target CUDA::cudart_static. A driver or a GPU is not asked for:
# programs are compiled where there is none, and say so when they are run there.
include(CheckLanguage)
check_language(CUDA)
# The compiler's own toolkit, whatever nvcc is on the PATH; Python's packages name a library by its version alone.
if(CMAKE_CUDA_COMPILER AND NOT DEFINED CUDAToolkit_ROOT)
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cordee_cuda_folder)
  cmake_path(GET cordee_cuda_folder PARENT_PATH CUDAToolkit_ROOT)
endif()
find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12
  PATHS ${CUDAToolkit_ROOT} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
find_package(CUDAToolkit 12 QUIET)
set(cordee_finds_cuda OFF)
if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart_static)
  set(cordee_finds_cuda ON)
endif()
set(cordee_cuda_absent
  "a CUDA compiler and the CUDA runtime, version 12 or later, which were not found: install the CUDA toolkit and put nvcc on the PATH, or say CMAKE_CUDA_COMPILER")
