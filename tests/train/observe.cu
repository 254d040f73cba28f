// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/comm/solo.hpp>
#include <cordee/cuda.cuh>
#include <cordee/precision/fp32.hpp>

#include "tests/support/has_gpu.cuh"
#include "tests/train/bytes_on.hpp"

using namespace support;

#if defined(CORDEE_HAS_CUDNN)
using of_halves = cudnn;
#else
using of_halves = wmma;
#endif
static_assert(std::same_as<engine_for<gpu, int8>::type, wmma>);
static_assert(std::same_as<engine_for<gpu, fp16>::type, of_halves> &&
              std::same_as<engine_for<gpu, bf16>::type, of_halves> &&
              std::same_as<engine_for<gpu, fp32>::type, usual_engine<gpu>::type>);

TEST_CASE("int8 on a GPU: it learns on tensor cores, and replayed steps are eager ones") {
  if (!has_gpu()) return;
  how by{.percentile = 97, .bad_step = 4};
  const made eager = train<wmma>(gpu{}, solo{}, by);
  CHECK(eager.losses.back() < eager.losses.front());
  by.replay = true;
  CHECK(train<wmma>(gpu{}, solo{}, by) == eager);
}
