// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/amx/engine.hpp>
#include <cordee/ops/engines/amx/tiles/tile_vectors.hpp>

#include "tests/support/engine_laws.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {
using on_vectors = amx_with<tile_vectors>;
}

ENGINE_LAWS(engine_of<on_vectors, bfloat>);

namespace {

static_assert(on_vectors::block<bfloat>(3) == 3 && on_vectors::block<bfloat>(5) == 16 &&
              on_vectors::block<bfloat>(31) == 16 && on_vectors::block<bfloat>(32) == 32);
static_assert(on_vectors::block<float>(64) == winograd::block<float>(64));
static_assert(ConvolutionEngine<on_vectors, float> && ConvolutionEngine<on_vectors, double> &&
              ConvolutionEngine<on_vectors, half, float>);

}  // namespace
