// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/nccl.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

namespace {

using words = span_on<float, nccl_double_gpu>;
static_assert(detail::comm::RegistersMemoryOn<nccl, nccl_double_gpu>);

}  // namespace

TEST_CASE("nccl_registration: memory is registered once, used, and deregistered before the end") {
  const int registered = nccl_double::registered, deregistered = nccl_double::deregistered;
  const int means = nccl_double::registered_means;
  const std::string message = error_message([&] {
    launch_nccl(
        2,
        [](nccl comm) {
          std::array<float, 4> memory{1, 2, 3, 4}, other{};
          const auto s = nccl_double_gpu::make_stream();
          auto held = comm.register_memory(bytes(words{memory.data(), 4}));
          CHECK(held.exists());
          auto moved = std::move(held);
          CHECK_FALSE(held.exists());
          comm.mean(words{memory.data() + 2, 2}, s);
          comm.mean(words{other.data(), 4}, s);
          nccl_double_gpu::close(s);
        },
        30s);
  });
  CHECK(message == "");
  CHECK(nccl_double::registered == registered + 2);
  CHECK(nccl_double::deregistered == deregistered + 2);
  CHECK(nccl_double::registered_means == means + 2);
}

TEST_CASE("nccl_registration: none of one rank, and none is left behind by a run that fails") {
  const int registered = nccl_double::registered, deregistered = nccl_double::deregistered;
  float x = 1;
  CHECK(error_message([&] {
          launch_nccl(
              1,
              [&](nccl comm) {
                CHECK_FALSE(comm.register_memory(bytes(words{&x, 1})).exists());
              },
              30s);
        }) == "");
  CHECK(nccl_double::registered == registered);
  const std::string message = error_message([&] {
    launch_nccl(
        2,
        [](nccl comm) {
          float y = 1;
          const auto held = comm.register_memory(bytes(words{&y, 1}));
          if (comm.rank() == 1) throw error("a fault");
          const auto s = nccl_double_gpu::make_stream();
          const std::string why = error_message([&] { comm.mean(words{&y, 1}, s); });
          nccl_double_gpu::close(s);
          throw error(why);
        },
        30s);
  });
  CHECK(contains(message, "rank 1: a fault"));
  CHECK(nccl_double::registered == registered + 2);
  CHECK(nccl_double::deregistered <= deregistered + 1);  // not of what was aborted
}
