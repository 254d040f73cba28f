# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds NCCL, after cuda.cmake has found CUDA: sets cordee_found_nccl, with the target NCCL::nccl.
set(cordee_found_nccl OFF)
if(cordee_found_cuda)
  list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(NCCL 2.14 QUIET)
  list(POP_FRONT CMAKE_MODULE_PATH)
  set(cordee_found_nccl ${NCCL_FOUND})
endif()
set(cordee_nccl_absent
  "NCCL 2.14 or later, which was not found beside CUDA: install libnccl-dev or nvidia-nccl-cu12, or set NCCL_INCLUDE_DIR and NCCL_LIBRARY")
if(NOT cordee_found_cuda)
  set(cordee_nccl_absent "the component cuda, and that ${cordee_cuda_absent}")
endif()
