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
constexpr auto nothing = [](int) { return nn::missing_memory{}; };
/// 1,000 bytes of a sample: 100 of its input, and 900 of activations.
nn::pass_layout layout() {
  nn::pass_layout of;
  of.number = of.real = 4;
  of.input = 100;
  of.add_part({900, 0}, 0);
  return of;
}

}  // namespace

TEST_CASE("largest_batch: an error names what is free, with what the samples hold, per sample") {
  const auto message_of = [](int samples, const nn::pass_layout& of) {
    return error_message(
        [&] { nn::run_in_memory(full_device{1'000}, {}, of, samples, allocate, held, nothing); });
  };
  std::string message = message_of(6, layout());
  CHECK(contains(message, "nothing is left; "));
  CHECK(contains(message, "take 1,000 bytes for each sample"));
  CHECK(contains(message, "at most 3 samples per rank fit into the 3,500 bytes"));
  // Half of 6,232 bytes: the activations of all samples are rounded up.
  CHECK(contains(message,
                 ". It fits with fp16 or bf16: 3,116 bytes, at the price of activations and their "
                 "gradients rounded to 16 bits; with accumulated micro-batches of 3: 3,116 bytes, "
                 "at the price of batch norm's statistics over 3 samples"));
}

TEST_CASE("largest_batch: recompute, where a network has blocks and it fits") {
  // Two blocks of 900 of its 2,000 bytes a sample, of which an output of 50 is kept: the second one
  // has 100 + 850 in 3 buffers, behind 200 of another layer, before 400 of gradients. 6 samples and
  // their input take 14,168 bytes, with what rounding up takes.
  nn::pass_layout blocks = layout();
  blocks.parts.clear();
  blocks.add_part({200, 0}, 400);
  for (int k = 0; k < 2; ++k) {
    const auto begin = nn::pass_layout::mark{blocks.parts.size(), blocks.blocks.size(), 0};
    blocks.add_part({900, 2}, 400);
    blocks.end_block(begin, 0, 50, true);
  }
  const auto message_of = [&](std::size_t free) {
    return error_message(
        [&] { nn::run_in_memory(full_device{free}, {}, blocks, 6, allocate, held, nothing); });
  };
  const std::string recomputed =
      ". It fits with recompute: 14,168 bytes, at the price of nearly one more forward pass; with ";
  CHECK(contains(message_of(14'168 - 2'500), recomputed.c_str()));
  CHECK(!contains(message_of(14'167 - 2'500), "recompute"));
  for (auto& b : blocks.blocks) b.memory = nn::block_memory::recomputed;
  CHECK(!contains(message_of(14'168 - 2'500), "recompute"));
}

TEST_CASE("largest_batch: what a pass has yet to allocate must fit, too") {
  // 3 samples of 1,000 bytes take 3,116: 3,500 are available.
  const auto fits_by_half = [](const nn::missing_memory& missing) {
    const std::string message = error_message([&] {
      nn::run_in_memory(full_device{1'000}, {}, layout(), 6, allocate, held,
                        [&](int) { return missing; });
    });
    CHECK(contains(message, "at most 3 samples per rank fit into the 3,500 bytes"));
    return contains(message, "with fp16 or bf16");
  };
  CHECK(fits_by_half({.workspace = 300, .packed_gradients = 84}));
  CHECK(!fits_by_half({.workspace = 300, .packed_gradients = 85}));
  nn::pass_layout updated = layout();
  updated.on_host = {2'000, 100};
  const auto by_host = [&](std::size_t packed) {
    return contains(error_message([&] {
                      nn::run_in_memory(full_device{1'732}, {}, updated, 6, allocate, held,
                                        [&](int) {
                                          return nn::missing_memory{0, packed};
                                        });
                    }),
                    "with on_host");
  };
  CHECK(by_host(0));
  CHECK(by_host(500));  // which an update by the host does not have
}

TEST_CASE("largest_batch: nothing is added during a capture, on a CPU, or to other errors") {
  CHECK(error_message([] {
          nn::run_in_memory(full_device{}, {}, layout(), 1, allocate, held, nothing);
        }) == "nothing is left");
  CHECK(error_message([] {
          nn::run_in_memory(cpu{1}, {}, layout(), 1, allocate, held, nothing);
        }) == "nothing is left");
  CHECK(error_message([] {
          nn::run_in_memory(
              full_device{1'000}, {}, layout(), 1, [] { throw error("other"); }, held, nothing);
        }) == "other");
}
