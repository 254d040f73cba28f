// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the compiler must be told: three annotations, and the ABI namespace.
#pragma once

#if defined(__CUDACC__)
#pragma nv_diag_suppress 1675  // a pragma of GCC's is for the host's compiler, which gets it
#define CORDEE_HOST __host__
#define CORDEE_DEVICE __device__
#define CORDEE_HOST_DEVICE __host__ __device__
#else
#define CORDEE_HOST
#define CORDEE_DEVICE
#define CORDEE_HOST_DEVICE
#endif

// Everything lives in cordee::<abi>, inline. Its name follows the macros that CMake sets for a
// whole target and that change what an inline function means, so two objects that were built
// differently fail to link instead of misbehaving. Never keyed on an ISA flag or on __CUDACC__,
// which one compiler of a program may have and another not.
#if defined(CORDEE_HAS_ZLIB) && defined(CORDEE_HAS_CUDNN)
#define CORDEE_ABI v0_zlib_cudnn
#elif defined(CORDEE_HAS_ZLIB)
#define CORDEE_ABI v0_zlib
#elif defined(CORDEE_HAS_CUDNN)
#define CORDEE_ABI v0_cudnn
#else
#define CORDEE_ABI v0
#endif
