// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/core/span_on.hpp>

using namespace cordee;

namespace {
struct host_device {
  static constexpr bool host_memory = true;
};
struct other_device {
  static constexpr bool host_memory = false;
};
template <class S>
concept read_by_host = requires(S s) {
  s[0];
  s.begin();
  s.end();
};
}  // namespace

// The address space is a type: only host memory can be read by the host or converted to std::span,
// spans of different devices do not convert, and const is kept.
static_assert(read_by_host<span_on<float, host_device>> &&
              !read_by_host<span_on<float, other_device>>);
static_assert(std::convertible_to<span_on<float, host_device>, std::span<float>>);
static_assert(!std::convertible_to<span_on<float, other_device>, std::span<float>>);
static_assert(!std::convertible_to<span_on<const float, host_device>, std::span<float>>);
static_assert(!std::convertible_to<span_on<float, host_device>, span_on<float, other_device>>);
static_assert(
    std::convertible_to<span_on<float, other_device>, span_on<const float, other_device>>);
static_assert(
    !std::convertible_to<span_on<const float, other_device>, span_on<float, other_device>>);

TEST_CASE("span_on: a subspan, a std::span and a loop read the same numbers") {
  std::array<int, 5> numbers{1, 2, 3, 4, 5};
  const span_on<int, host_device> all{numbers.data(), numbers.size()};
  const auto middle = all.subspan(1, 3);
  CHECK(middle.size == 3);
  CHECK(std::accumulate(middle.begin(), middle.end(), 0) == 9);
  const std::span<int> host = middle;
  CHECK((host.data() == &numbers[1] && host.size() == 3));
  middle[0] = 20;
  CHECK(numbers[1] == 20);
  CHECK((all.subspan(5, 0).empty() && !all.empty() && span_on<int, other_device>{}.empty()));
}

TEST_CASE("span_on: bytes are the same memory, const ones of const numbers") {
  std::array<std::int32_t, 2> numbers{0x01010101, 0x02020202};
  const span_on<std::int32_t, host_device> all{numbers.data(), numbers.size()};
  REQUIRE(bytes(all).size == 8);
  CHECK((bytes(all)[3] == std::byte{1} && bytes(all)[4] == std::byte{2}));
  const auto of_const = bytes(span_on<const std::int32_t, host_device>(all));
  static_assert(std::same_as<decltype(of_const), const span_on<const std::byte, host_device>>);
  static_assert(std::same_as<decltype(bytes(all)), span_on<std::byte, host_device>>);
  CHECK((of_const.data == bytes(all).data && of_const.size == 8));
}
