# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles steps.cu by NVCC with the PyTorch of the environment CORDEE_TORCH_VENV, or of ENVIRONMENT, and runs it:
#
#   CORDEE_TORCH_VENV=VENV cmake -D ROOT=. -D FOLDER=/tmp/torch_cuda -P tests/torch_cuda/torch_cuda.cmake
if(NOT "$ENV{CORDEE_TORCH_VENV}" STREQUAL "")
  set(ENVIRONMENT $ENV{CORDEE_TORCH_VENV})
endif()
if(NOT NVCC)
  set(NVCC nvcc)
endif()
file(GLOB torch ${ENVIRONMENT}/lib/python3*/site-packages/torch)
if(NOT EXISTS "${torch}/include/c10/cuda/impl/cuda_cmake_macros.h")
  message("skipped: no CUDA build of PyTorch in \"${ENVIRONMENT}\": CORDEE_TORCH_VENV names an environment with PyPI's torch")
  return()
endif()
cmake_path(SET nvidia NORMALIZE ${torch}/../nvidia)
file(GLOB folders ${nvidia}/*/lib)
set(paths)
foreach(folder IN LISTS folders ITEMS ${torch}/lib)
  list(APPEND paths -Xlinker -rpath,${folder} -Xlinker -rpath-link,${folder})
endforeach()
file(MAKE_DIRECTORY ${FOLDER})
foreach(command
    "${NVCC};-std=c++20;--extended-lambda;--expt-relaxed-constexpr;-arch=sm_90;-O1;-I${ROOT}/include;-isystem;${torch}/include;-isystem;${torch}/include/torch/csrc/api/include;-isystem;${nvidia}/nccl/include;-c;${ROOT}/tests/torch_cuda/steps.cu;-o;${FOLDER}/steps.o"
    "${NVCC};-cudart;shared;${FOLDER}/steps.o;-o;${FOLDER}/steps;-L${torch}/lib;-Xlinker;--no-as-needed;-ltorch;-ltorch_cpu;-ltorch_cuda;-lc10;-lc10_cuda;-L${nvidia}/nccl/lib;-l:libnccl.so.2;-Xlinker;--allow-shlib-undefined;${paths}"
    "${FOLDER}/steps")
  execute_process(COMMAND ${command} RESULT_VARIABLE failed)
  if(failed)
    list(JOIN command " " text)
    message(FATAL_ERROR "failed: ${text}")
  endif()
endforeach()
