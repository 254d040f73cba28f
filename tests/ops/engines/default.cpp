// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <concepts>

#include <cordee/ops/engines/amx/amx.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/ops/engines/winograd/engine.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;

namespace {

using detail::ops::default_engine;
using detail::ops::engine_name;

static_assert(std::same_as<engine_for<cpu, fp32>::type, winograd>);
static_assert(std::same_as<engine_for<cpu, fp16>::type, winograd>);
static_assert(std::same_as<engine_for<cpu, fp64>::type, direct>);
#if defined(__AMX_TILE__)
static_assert(std::same_as<engine_for<cpu, int8>::type, cordee::amx>);
static_assert(std::same_as<engine_for<cpu, bf16>::type, cordee::amx>);
#else
static_assert(std::same_as<engine_for<cpu, int8>::type, direct>);
#if (defined(__AVX512BF16__) && !defined(__cooperlake__) && !defined(__AVX512FP16__)) || \
    defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
static_assert(std::same_as<engine_for<cpu, bf16>::type, direct>);
#else
static_assert(std::same_as<engine_for<cpu, bf16>::type, winograd>);
#endif
#endif

// A GPU's lines are read without its headers.
static_assert(default_engine<cuda, int8>() == engine_name::tensor_core);
static_assert(default_engine<cuda, fp64>() == engine_name::reference);
#if defined(CORDEE_HAS_CUDNN)
static_assert(default_engine<cuda, fp16>() == engine_name::cudnn);
static_assert(default_engine<cuda, fp32>() == engine_name::cudnn);
#else
static_assert(default_engine<cuda, fp16>() == engine_name::tensor_core);
static_assert(default_engine<cuda, bf16>() == engine_name::tensor_core);
static_assert(default_engine<cuda, fp32>() == engine_name::reference);
#endif

struct other_device {};
static_assert(std::same_as<engine_for<other_device, fp32>::type, reference>);

}  // namespace
