// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <concepts>

#include <cordee/ops/engines/amx/amx.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp32.hpp>

// What it is in other builds is tests/compile_fail/engines.cpp's.
using namespace cordee;
using detail::ops::engine_name;

static_assert(detail::ops::bfloat_tiles ==
              (detail::ops::default_engine<cpu, bf16>() == engine_name::amx));
static_assert(detail::ops::default_engine<cpu, fp32>() == engine_name::winograd);
