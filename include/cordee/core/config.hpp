// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Three annotations for CUDA compilers, and the name of the ABI namespace.
#pragma once

#if defined(__CUDACC__)
#pragma nv_diag_suppress 1675  // GCC's pragmas are unknown to nvcc and meant for the host compiler
#define CORDEE_HOST __host__
#define CORDEE_DEVICE __device__
#define CORDEE_HOST_DEVICE __host__ __device__
#else
#define CORDEE_HOST
#define CORDEE_DEVICE
#define CORDEE_HOST_DEVICE
#endif

// Everything lives in cordee::<abi>, inline. The name follows every CORDEE_HAS_* that CMake defines
// for a target, because each may change what an inline function means. Effects:
//   - a function whose signature names a type of the library has another symbol in a unit that was
//     built with other macros, so a call from one into the other is a link error;
//   - units that share inline functions of the library alone link, and each calls its own copy.
// A function of yours whose signature names no such type is not protected. Never keyed on an ISA
// flag or on __CUDACC__, which may differ between the compilers of one program.
#if defined(CORDEE_HAS_ZLIB)
#define CORDEE_ABI_ZLIB _zlib
#else
#define CORDEE_ABI_ZLIB
#endif
#if defined(CORDEE_HAS_CUDA)
#define CORDEE_ABI_CUDA _cuda
#else
#define CORDEE_ABI_CUDA
#endif
#if defined(CORDEE_HAS_CUDNN)
#define CORDEE_ABI_CUDNN _cudnn
#else
#define CORDEE_ABI_CUDNN
#endif
#define CORDEE_ABI_PASTE(version, zlib, cuda, cudnn) version##zlib##cuda##cudnn
#define CORDEE_ABI_NAME(version, zlib, cuda, cudnn) CORDEE_ABI_PASTE(version, zlib, cuda, cudnn)
#define CORDEE_ABI CORDEE_ABI_NAME(v0, CORDEE_ABI_ZLIB, CORDEE_ABI_CUDA, CORDEE_ABI_CUDNN)
