// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With a device that says what is free; on the doubles of CUDA it is tests/train/step_launches.cu.
#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/largest_batch.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace support;

namespace {

struct full_device {
  struct stream {};
  std::optional<std::size_t> free;
  [[nodiscard]] std::optional<std::size_t> available(stream) const { return free; }
};
constexpr auto allocate = [] { throw core::out_of_memory("nothing is left"); };
constexpr auto held = [] { return std::size_t{2'500}; };

}  // namespace

TEST_CASE("largest_batch: an error names what is free, with what the samples hold, per sample") {
  const std::string message =
      error_message([] { nn::run_in_memory(full_device{1'000}, {}, 1'000, allocate, held); });
  CHECK(contains(message, "nothing is left; "));
  CHECK(contains(message, "take 1,000 bytes for each sample"));
  CHECK(contains(message, "at most 3 samples per rank fit into the 3,500 bytes"));
}

TEST_CASE("largest_batch: nothing is added during a capture, on a CPU, or to other errors") {
  CHECK(error_message([] { nn::run_in_memory(full_device{}, {}, 1'000, allocate, held); }) ==
        "nothing is left");
  CHECK(error_message([] { nn::run_in_memory(cpu{1}, {}, 1'000, allocate, held); }) ==
        "nothing is left");
  CHECK(error_message([] {
          nn::run_in_memory(
              full_device{1'000}, {}, 1'000, [] { throw error("other"); }, held);
        }) == "other");
}
