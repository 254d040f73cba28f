// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `amx` by name. Programs for other processors do not compile its code; using it there is a
// compile error that says what it needs.
#pragma once

#include <cordee/ops/engines/default.hpp>
#if CORDEE_ABI_AMX
#include <cordee/ops/engines/amx/engine.hpp>
#endif

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {
template <engine_name Name>
struct engine_of_other_builds {
  static_assert(Name != engine_name::amx,
                "engine amx needs a build for AMX: compile with -march=sapphirerapids or later "
                "(-mamx-tile -mamx-bf16 -mamx-int8), or name engine winograd or direct");
};
}  // namespace detail::ops

#if CORDEE_ABI_AMX
/// The bf16 engine for processors with AMX.
using amx = detail::ops::amx_with<detail::ops::granted_tiles>;
static_assert(ConvolutionEngine<amx, float> && ConvolutionEngine<amx, double> &&
              ConvolutionEngine<amx, half, float> && ConvolutionEngine<amx, bfloat, float> &&
              detail::ops::ByteEngine<amx>);

namespace detail::ops {
template <>
struct engine_type<engine_name::amx> {
  using type = amx;
};
}  // namespace detail::ops
#else
/// The bf16 engine for processors with AMX; using it in this build is a compile error that says so.
using amx = detail::ops::engine_of_other_builds<detail::ops::engine_name::amx>;
#endif

}  // namespace cordee::inline CORDEE_ABI
