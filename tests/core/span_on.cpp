// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/core/span_on.hpp>

using namespace cordee;

namespace {
struct near {
  static constexpr bool host_memory = true;
};
struct far {
  static constexpr bool host_memory = false;
};
template <class S>
concept read_by_host = requires(S s) {
  s[0];
  s.begin();
  s.end();
};
}  // namespace

// The address space is a type: only host memory is read by the host or becomes a std::span, no
// device's memory becomes another's, and const is never lost.
static_assert(read_by_host<span_on<float, near>> && !read_by_host<span_on<float, far>>);
static_assert(std::convertible_to<span_on<float, near>, std::span<float>>);
static_assert(!std::convertible_to<span_on<float, far>, std::span<float>>);
static_assert(!std::convertible_to<span_on<const float, near>, std::span<float>>);
static_assert(!std::convertible_to<span_on<float, near>, span_on<float, far>>);
static_assert(std::convertible_to<span_on<float, far>, span_on<const float, far>>);
static_assert(!std::convertible_to<span_on<const float, far>, span_on<float, far>>);

TEST_CASE("span_on: a subspan, a std::span and the loop see the same numbers") {
  std::array<int, 5> numbers{1, 2, 3, 4, 5};
  const span_on<int, near> all{numbers.data(), numbers.size()};
  const auto middle = all.subspan(1, 3);
  CHECK(middle.size == 3);
  CHECK(std::accumulate(middle.begin(), middle.end(), 0) == 9);
  const std::span<int> host = middle;
  CHECK((host.data() == &numbers[1] && host.size() == 3));
  middle[0] = 20;
  CHECK(numbers[1] == 20);
  CHECK((all.subspan(5, 0).empty() && !all.empty() && span_on<int, far>{}.empty()));
}

TEST_CASE("span_on: as bytes it is the same memory, as many bytes as the numbers take") {
  std::array<std::int32_t, 2> numbers{0x01010101, 0x02020202};
  const span_on<std::int32_t, near> all{numbers.data(), numbers.size()};
  REQUIRE(bytes(all).size == 8);
  CHECK((bytes(all)[3] == std::byte{1} && bytes(all)[4] == std::byte{2}));
  CHECK(const_bytes(span_on<const std::int32_t, near>(all)).data == bytes(all).data);
}
