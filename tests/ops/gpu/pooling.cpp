// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/ops/gpu/pooling_laws.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Records the blocks of the last launch and runs nothing.
struct recording_stream : cordee::detail::device::kernel_adl_base {
  std::size_t* blocks;
  explicit recording_stream(std::size_t& to) : blocks(&to) {}
  template <class Kernel>
  void launch_kernel(std::size_t n, const Kernel&) const {
    *blocks = n;
  }
  [[nodiscard]] void* allocate(std::size_t) const { return nullptr; }
  void release(void*) const noexcept {}
  void copy(void*, const void*, std::size_t) const {}
  void finish() const {}
  [[nodiscard]] unsigned* counters(std::size_t) const { return nullptr; }
};

}  // namespace

TEST_CASE_TEMPLATE("pooling on a GPU, emulated: values, argmax and gradients equal the CPU's", N,
                   EMULATED_NUMBERS) {
  for (const std::uint64_t seed : {1u, 2u}) check_pooling<N>(emulated(seed));
}

TEST_CASE_TEMPLATE("pooling on a GPU, emulated: NaN propagates, and maxima may be negative", N,
                   half, float) {
  const max_pool_problem at{{2, 5, 5}, 3, 2, 1};
  const pooling_fixture<N, emulated> on{emulated(), 1};
  const auto numbers = representable_normals<N>(at.in.size(), 1);
  for (std::size_t bad = 0; bad < numbers.size(); ++bad) {
    auto x = numbers;
    x[bad] = std::nan("");
    x[(bad + 7) % x.size()] = std::nan("");
    on.template maximum<8>(at, x);
  }
  auto x = numbers;
  for (double& one : x) one = -1 - std::abs(one);
  for (double& one : x) one = to_double(nearest<N>(one));
  on.template maximum<1>(at, x);
  on.template maximum<8>(at, std::vector<double>(x.size(), -HUGE_VAL));
}

TEST_CASE("pooling on a GPU: the average pool of ResNet-50 has several blocks per multiprocessor") {
  std::size_t blocks = 0;
  half* const none = nullptr;
  const recording_stream s(blocks);
  average_pool_forward<half, 2048>({2048, 7, 7}, 256, none, none, s);
  CHECK(blocks >= 4 * 132);
  blocks = 0;
  average_pool_backward<half, 2048>({2048, 7, 7}, 256, none, none, s);
  CHECK(blocks >= 4 * 132);
}

TEST_CASE("pooling on a GPU: activations that are not aligned to a vector are a usage error") {
  std::size_t blocks = 0;
  alignas(16) half memory[16] = {};
  const recording_stream s(blocks);
  const auto message = error_message([&] {
    average_pool_forward<half, 8>({8, 1, 1}, 1, memory + 1, memory + 8, s);
  });
  CHECK(contains(message, "must be aligned to 16 bytes"));
}
