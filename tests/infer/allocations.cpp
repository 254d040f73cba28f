// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the allocations of the program.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"
#include "tests/support/replaced_new.hpp"

namespace {

std::atomic<int> allocations{0};

}  // namespace

void* support::replaced_new(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  return system_memory(bytes, alignment);
}
void support::replaced_delete(void* memory) noexcept { std::free(memory); }

TEST_CASE(
    "integer_network: a call allocates nothing, of one image and of many, the first one too") {
  using namespace cordee;
  using net = resnet<8, int8, cpu, resnet_options{.image = {3, 10, 9}, .zero_gamma = false}>;
  const auto plane = support::random_plane<net>(1);
  const std::vector<std::uint8_t> images(13 * net::input.size());
  std::vector<std::int32_t> logits(13 * net::classes);
  for (const int workers : {1, 2, 3}) {
    auto integers = integer_network::from<net>(plane, {}, cpu(workers));
    const int before = allocations;
    CHECK(before > 0);
    integers.run(images, logits);
    integers.run(std::span(images).first(net::input.size()), std::span(logits).first(net::classes));
    CHECK(allocations - before == 0);
    int on_another_thread = -1;
    std::thread([&] {
      const int earlier = allocations;
      integers.run(images, logits);
      on_another_thread = allocations - earlier;
    }).join();
    CHECK(on_another_thread == 0);
  }
  const auto list = detail::infer::list_layers(static_cast<const net*>(nullptr));
  const auto program = detail::infer::program_builder(list, plane).build(net::input, {});
  detail::infer::direct_program<detail::ops::lanes<float>> shared(program, cpu(3), {0, 0});
  const int before = allocations;
  for (const std::size_t samples : {1u, 2u, 5u}) shared.run(samples, images.data(), logits.data());
  CHECK(allocations - before == 0);
}
