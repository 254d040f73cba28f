# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Where NCCL is: cordee_finds_nccl, with the target NCCL::nccl, beside the CUDA that cuda.cmake has found.
set(cordee_finds_nccl OFF)
if(cordee_finds_cuda)
  list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(NCCL 2.14 QUIET)
  list(POP_FRONT CMAKE_MODULE_PATH)
  set(cordee_finds_nccl ${NCCL_FOUND})
endif()
set(cordee_nccl_absent
  "NCCL 2.14 or later, which was not found beside CUDA: install libnccl-dev or nvidia-nccl-cu12, or say NCCL_INCLUDE_DIR and NCCL_LIBRARY")
if(NOT cordee_finds_cuda)
  set(cordee_nccl_absent "the component cuda, and that ${cordee_cuda_absent}")
endif()
