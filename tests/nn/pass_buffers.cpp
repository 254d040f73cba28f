// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/pass_buffers.hpp>

using namespace cordee;

TEST_CASE("activations: buffers grow and do not overlap") {
  detail::nn::activations<cpu> saved(cpu(1), 2);
  double *a = saved.buffer_for<double>(0, 8), *b = saved.buffer_for<double>(1, 8);
  CHECK(a != b);
  CHECK(saved.buffer_for<double>(0, 4) == a);
  saved.buffer_for<double>(0, 100)[99] = 1;
}

namespace {

/// Two activations, of 1,000 and of 3,000 bytes for a sample, in two samples.
struct two_activations {
  std::array<detail::nn::planned_buffer, 2> plan{{{0, 1000, {0, 0}}, {1, 3000, {1000, 1}}}};
  detail::nn::activations<cpu> saved{cpu(1), 2, plan, {4000, 2}};
  std::byte *first = nullptr, *second = nullptr;

  two_activations() {
    saved.begin_forward(2);
    first = saved.buffer_for<std::byte>(0, 2000);
    second = saved.buffer_for<std::byte>(1, 6000);
  }
  // Whether memory of so many bytes begins in the second activation.
  [[nodiscard]] bool is_in_second(const std::byte* memory) const {
    return memory >= second && memory < second + 6000;
  }
};

}  // namespace

TEST_CASE("activations: temporary memory is behind the floor, else in buffers that are kept") {
  two_activations a;
  CHECK(a.second >= a.first + 2000);
  a.saved.begin_backward(nullptr, 0);
  std::byte* const own = a.saved.acquire(500);  // the floor is the end
  CHECK_FALSE(a.is_in_second(own));
  const std::size_t bytes = a.saved.bytes();
  a.saved.set_floor({1000, 1});
  std::byte *const one = a.saved.acquire(2000), *const two = a.saved.acquire(3000);
  CHECK(a.is_in_second(one));
  CHECK(a.is_in_second(two));
  CHECK((one >= two + 3000 || two >= one + 2000));
  CHECK(a.saved.bytes() == bytes);
  CHECK_FALSE(a.is_in_second(a.saved.acquire(2000)));  // it would overlap
  a.saved.release(two);
  CHECK(a.saved.acquire(3000) == two);
  a.saved.release(own);
  a.saved.set_floor({4000, 2});
  CHECK(a.saved.acquire(400) == own);
}

TEST_CASE("activations: what a pass keeps and a fixed floor") {
  two_activations a;
  a.saved.begin_backward(a.second + 4000, 2000);
  a.saved.set_floor({1000, 1}, true);
  std::byte* const one = a.saved.acquire(1000);
  CHECK(a.is_in_second(one));
  CHECK(one + 1000 <= a.second + 4000);
  a.saved.set_floor({0, 0});
  CHECK_FALSE(a.is_in_second(a.saved.acquire(3800)));
  a.saved.release_floor();
  a.saved.set_floor({0, 0});
  CHECK(a.saved.acquire(3800) < one);
  a.saved.begin_forward(1);
  CHECK(a.saved.buffer_for<std::byte>(1, 3000) < a.second);
}
