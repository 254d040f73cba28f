// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Three annotations for CUDA compilers, the name of the ABI namespace, and the refusal of compilers
// that do not know C++20 or may assume that no number is NaN.
#pragma once

// Each header includes this one before its first declaration. An include that is not found is the
// only error that ends a compilation, which would report thousands behind this one.
#if __cplusplus < 202002L
#error "cordee: it needs C++20: compile with -std=c++20, or link cordee::cordee in CMake"
#include <cordee: stopped, see the error above>
#elif defined(__clang__) && !defined(__apple_build_version__) && __clang_major__ < 16
#error "cordee: this clang does not know enough of C++20: it needs clang 16 or later, or g++ 12"
#include <cordee: stopped, see the error above>
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "cordee: this g++ does not know enough of C++20: it needs g++ 12 or later, or clang 16"
#include <cordee: stopped, see the error above>
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ + 0 != 0)
#error \
    "cordee: -ffast-math, -Ofast and -ffinite-math-only let the compiler remove the tests for NaN \
and infinity that skip a step and stop a run; compile without them, or add -fno-fast-math"
#endif

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
// for a target, and what the compiler's flags say of the processor: the width of its registers,
// which activations and packed weights are laid out by, and whether these hold integers (AVX2), by
// which images are resized; whether products are fused with additions, which decides the last bit,
// and whether it multiplies bf16, in pairs or as tiles, which has a layout of its own. Each changes
// what an inline function means. Effects:
//   - a function whose signature names a type of the library has another symbol in a unit that was
//     built with other macros, so a call from one into the other is a link error;
//   - units that share inline functions of the library alone link, and each calls its own copy.
// A function of yours whose signature names no such type is not protected. A program of .cpp and
// .cu units that share such signatures gives both compilers the same flags: nvcc
// -Xcompiler=-march=.... Never keyed on __CUDACC__, which differs between them by nature.
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
// SVE's registers have a width only with -msve-vector-bits. In clang 16's assembly statements they
// hold no vector of that width.
#if defined(__ARM_FEATURE_SVE_BITS) && !defined(__clang__)
#define CORDEE_ABI_SVE_BITS __ARM_FEATURE_SVE_BITS
#else
#define CORDEE_ABI_SVE_BITS 0
#endif
#if defined(__AVX512F__) || CORDEE_ABI_SVE_BITS == 512
#define CORDEE_ABI_SIMD _simd64
#elif defined(__AVX2__)
#define CORDEE_ABI_SIMD _simd32i
#elif defined(__AVX__) || CORDEE_ABI_SVE_BITS == 256
#define CORDEE_ABI_SIMD _simd32
#else
#define CORDEE_ABI_SIMD _simd16
#endif
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)
#define CORDEE_ABI_AMX 1
#else
#define CORDEE_ABI_AMX 0
#endif
// Vectors' products of bf16 are not used on Intel's processors (ops/engines/default.hpp). Cooper
// Lake is known by name, to g++; the later ones have AVX512-FP16, too.
#if (defined(__AVX512BF16__) && !defined(__cooperlake__) && \
     (!defined(__AVX512FP16__) || CORDEE_ABI_AMX)) ||       \
    defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define CORDEE_ABI_BFLOAT_DOTS 1
#else
#define CORDEE_ABI_BFLOAT_DOTS 0
#endif
#if CORDEE_ABI_AMX
#define CORDEE_ABI_ARITHMETIC _amx
#elif CORDEE_ABI_BFLOAT_DOTS
#define CORDEE_ABI_ARITHMETIC _bf16
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define CORDEE_ABI_ARITHMETIC _fma
#else
#define CORDEE_ABI_ARITHMETIC
#endif
// The last two as text: "_simd32i_fma".
#define CORDEE_ABI_TEXT_OF(simd, arithmetic) #simd #arithmetic
#define CORDEE_ABI_TEXT(simd, arithmetic) CORDEE_ABI_TEXT_OF(simd, arithmetic)
#define CORDEE_ABI_PASTE(version, zlib, cuda, cudnn, simd, arithmetic) \
  version##zlib##cuda##cudnn##simd##arithmetic
#define CORDEE_ABI_NAME(version, zlib, cuda, cudnn, simd, arithmetic) \
  CORDEE_ABI_PASTE(version, zlib, cuda, cudnn, simd, arithmetic)
#define CORDEE_ABI                                                                         \
  CORDEE_ABI_NAME(v0, CORDEE_ABI_ZLIB, CORDEE_ABI_CUDA, CORDEE_ABI_CUDNN, CORDEE_ABI_SIMD, \
                  CORDEE_ABI_ARITHMETIC)
