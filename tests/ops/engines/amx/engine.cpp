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
              ConvolutionEngine<on_vectors, half, float> && ByteEngine<on_vectors>);

}  // namespace

TEST_CASE("amx: the permission decides by what tiles are multiplied, not the bits") {
  using by_permission = amx_with<granted_tiles>;
  const convolution_problem p{{32, 7, 7}, 48, 3, 2, 1};
  const auto x = random_numbers<bfloat>(2 * p.in.size(), 1),
             w = random_numbers<bfloat>(p.weights(), 2),
             dy = random_numbers<bfloat>(2 * p.out().size(), 3);
  harness<by_permission, bfloat> engine{p, 2};
  harness<on_vectors, bfloat> expected{p, 2};
  CHECK(engine.fprop(x, w) == expected.fprop(x, w));
  CHECK(engine.dgrad(dy, w) == expected.dgrad(dy, w));
  CHECK(engine.wgrad(x, dy) == expected.wgrad(x, dy));
  const std::string how = by_permission::describe();
  CHECK(how.starts_with(tiles_of_process().granted ? "bf16 by AMX" : "bf16 by vectors, since "));
  CHECK(how.ends_with(tiles_of_process().granted ? "AMX" : tiles_of_process().reason));
}
