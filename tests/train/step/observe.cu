// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/cordee.cuh>
#include <cordee/precision/fp32.hpp>

#include "tests/train/bytes_on.hpp"

using namespace support;

#if defined(CORDEE_HAS_CUDNN)
using half_engine = cudnn;
using single_engine = cudnn;
#else
using half_engine = tensor_core;
using single_engine = reference;
#endif
static_assert(std::same_as<engine_for<gpu, int8>::type, tensor_core>);
static_assert(std::same_as<engine_for<gpu, fp16>::type, half_engine> &&
              std::same_as<engine_for<gpu, bf16>::type, half_engine> &&
              std::same_as<engine_for<gpu, fp32>::type, single_engine>);

// Seven updates of other samples each do not lower this network's loss, on a CPU or elsewhere: what
// they do to the weights is compared.
TEST_CASE("int8 on a GPU: steps on tensor cores are the CPU's but for rounding, replayed or not") {
  int8_options options{.percentile = 97, .bad_step = 4};
  const int8_outcome host = train(cpu(1), solo{}, options),
                     eager = train<tensor_core>(gpu{}, solo{}, options);
  check_int8_steps(eager, host, solo{}, options);
  options.capture_graphs = true;
  CHECK(train<tensor_core>(gpu{}, solo{}, options) == eager);
}

TEST_CASE("int8 on a GPU: it learns one batch, replayed or not") {
  for (const auto& losses : {learn_one_batch(cpu(1)), learn_one_batch<tensor_core>(gpu{}),
                             learn_one_batch<tensor_core>(gpu{}, true)})
    CHECK(losses.back() < learned_part * losses.front());
}
