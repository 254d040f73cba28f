// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of a network that names none, by device, precision and instruction set:
//
//   device  precision    where              engine       what decided
//   cpu     fp32, fp16                      winograd     1.06 to 1.18 of direct over the layers of
//                                                        ResNet-20 and -50, one 3x3 layer up to
//                                                        1.9; 2026-11-23, Zen 4
//   cpu     bf16         AMX                amx          0.36 of fp32's step of ResNet-20, 0.29 of
//                                                        both passes of ResNet-50; 2026-11-29,
//                                                        Emerald Rapids
//   cpu     bf16         AVX512-BF16        direct       0.64 of fp32's step and 0.65 of that of
//                                                        winograd, which computes in fp32;
//                                                        2026-11-28, Zen 5
//   cpu     bf16         that of Intel      winograd     1.5 of fp32's step in pairs (half the peak
//                        (without AMX)                   of fp32): it computes in fp32; measured
//                                                        on Emerald Rapids
//   cpu     bf16         Arm's BF16         direct       two products to an instruction; not timed
//   cpu     bf16         elsewhere          winograd     it computes in fp32 there
//   cpu     int8         AMX                amx          eight times the peak of VNNI (6,124 and
//                                                        759 GF/s a thread, Emerald Rapids),
//                                                        of which ResNet-50 reaches 1,000;
//                                                        2026-11-29
//   cpu     fp64, int8                      direct       winograd has neither
//   cuda    int8                            tensor_core  cudnn has no convolution of bytes
//   cuda    fp64                            reference    no other engine of a GPU has it
//   cuda    others       cuDNN found        cudnn        tensor_core has 0.54 of its speed (median
//                                                        of 68 convolutions); 2026-11-26, H200
//   cuda    fp16, bf16   no cuDNN           tensor_core  the one engine that uses tensor cores
//   others                                  reference
//
// The dates are those of benchmarks/results. An engine's header names its type: engine_type. To
// choose another engine for a whole program, specialise engine_for.
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/precision/number.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

class cuda;

namespace detail::ops {

/// Whether this build is for processors with AMX's tiles.
inline constexpr bool bfloat_tiles = CORDEE_ABI_AMX;

enum class engine_name { reference, direct, winograd, amx, tensor_core, cudnn };

/// The table above.
template <class D, class P>
consteval engine_name default_engine() {
  using N = typename precision::activation_of<P>::type;
  if constexpr (std::same_as<D, cpu>) {
    if (Quantized<P> && bfloat_tiles) return engine_name::amx;
    if (Quantized<P> || std::same_as<N, double>) return engine_name::direct;
    if (std::same_as<N, bfloat> && bfloat_tiles) return engine_name::amx;
    if (std::same_as<N, bfloat> && bfloat_dots) return engine_name::direct;
    return engine_name::winograd;
  } else if constexpr (std::same_as<D, cuda>) {
    if (Quantized<P>) return engine_name::tensor_core;
    if (std::same_as<N, double>) return engine_name::reference;
#if defined(CORDEE_HAS_CUDNN)
    return engine_name::cudnn;
#else
    return sizeof(N) == 2 ? engine_name::tensor_core : engine_name::reference;
#endif
  } else {
    return engine_name::reference;
  }
}

/// The type of an engine. Its header specialises it.
template <engine_name Name>
struct engine_type {
  static_assert(Name == engine_name{-1},
                "the default engine of this device and precision is not included: include "
                "<cordee/cordee.hpp>, or its header in cordee/ops/engines, or name another engine");
};

}  // namespace detail::ops

/// The engine of a network that names none, on device D in precision P.
template <class D, class P>
struct engine_for : detail::ops::engine_type<detail::ops::default_engine<D, P>()> {};

}  // namespace cordee::inline CORDEE_ABI
