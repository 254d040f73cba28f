// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/strided_lanes.hpp>

using namespace cordee::detail::ops;

namespace {

/// x <- root(at_least(clamped((x + 2 y) y - x / 3, 5), 2) (x + 2 y))
struct mixed_body {
  float* x;
  const float* y;
  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number sum = at(x) + 2 * at(y);
    at.put(x, at.root(at.at_least(at.clamped(sum * at(y) - at(x) / 3, 5), 2) * sum + at.zero()));
  }
};

/// A number that records its loads and stores.
struct recorded_number {
  float value = 0;
  static inline std::string events;
  recorded_number() = default;
  explicit recorded_number(float x) : value(x) {}
  recorded_number(const recorded_number&) = default;
  recorded_number& operator=(const recorded_number& other) {
    events += 's';
    value = other.value;
    return *this;
  }
  explicit operator float() const {
    events += 'l';
    return value;
  }
};

}  // namespace

TEST_CASE("strided_lanes: a body computes what it does number by number, and visits each once") {
  constexpr int apart = 8;
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 63u, 64u, 65u, 100u}) {
    CAPTURE(n);
    std::vector<float> x(n + 1, 7), y(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = 1 + static_cast<float>(i % 13) / 8;
      y[i] = 2 + static_cast<float>(i % 5) / 4;
    }
    auto one_by_one = x, strided = x;
    for (std::size_t i = 0; i < n; ++i)
      mixed_body{one_by_one.data(), y.data()}(lane_ref<float, 1>{i});
    for (std::size_t thread = 0; thread < apart; ++thread)
      for_each_strided<float, apart>(thread, n, mixed_body{strided.data(), y.data()});
    CHECK(strided == one_by_one);
  }
}

TEST_CASE("strided_lanes: four numbers of a plane are loaded before the first one is stored") {
  std::vector<recorded_number> x(20);
  recorded_number::events.clear();
  for_each_strided<float, 4>(1, x.size(), [&](auto at) { at.put(x.data(), at(x.data()) + 1); });
  CHECK(recorded_number::events == "llllssssls");  // numbers 1, 5, 9, 13, and 17
}
