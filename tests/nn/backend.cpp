// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/nn/backend.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

struct double_masters : bf16 {
  using master = double;
};

template <class Engine, class P = fp32>
using on_cpu = backend<P, cpu, Engine>;

}  // namespace

static_assert(computes_in<fp32, cpu> && computes_in<fp64, cpu> && computes_in<bf16, cpu> &&
              computes_in<int8, cpu>);
static_assert(!computes_in<double_masters, cpu> && computes_in<double_masters, support::emulated>);

static_assert(std::is_same_v<on_cpu<reference, bf16>::real, float> &&
              sizeof(on_cpu<reference, bf16>::number) == 2 &&
              std::is_same_v<on_cpu<reference, int8>::number, float>);
static_assert(!on_cpu<direct>::packs_by_table && !on_cpu<direct>::packs_gradients);

static_assert(
    std::is_same_v<quantization_of<fp32, cpu>, no_quantization> &&
    std::is_same_v<quantization_of<int8, cpu>, quantization_options> &&
    std::is_same_v<quantization_of<int8, support::emulated>, quantization_on<support::emulated>>);

TEST_CASE("backend: a sample has the numbers of its channels, rounded up to the engine's blocks") {
  const extent image{5, 2, 3};
  CHECK(on_cpu<reference>::block(5) == 1);
  CHECK(on_cpu<reference>::numbers(image) == 5 * 2 * 3);
  const int block = on_cpu<direct>::block(5);
  CHECK(on_cpu<direct>::numbers(image) ==
        static_cast<std::size_t>((5 + block - 1) / block * block * 2 * 3));
}
