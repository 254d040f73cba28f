// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/deferred_epilogue.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr int V = lanes<float>;

/// y is the sum, plus a number of its sample and block.
struct adding_epilogue {
  std::int32_t added;

  struct block {
    std::int32_t added;
    std::int32_t* y;
    void operator()(std::size_t at, vec<std::int32_t, V> sum) const {
      store<std::int32_t, V>(y + at, sum + added);
    }
    void finish_four(std::size_t at, const std::int32_t* sums) const {
      for (std::size_t p = 0; p < 4; ++p) (*this)(at + p * V, load<std::int32_t, V>(sums + p * V));
    }
  };
  [[nodiscard]] block of_block(std::size_t, std::int32_t* y) const { return {added, y}; }
  void prefetch(const std::int32_t*) const {}
};

}  // namespace

TEST_CASE("deferred_epilogue: every pixel of all runs once, in slices of at most four") {
  constexpr std::size_t pixels = 9;
  std::vector<std::int32_t> sums(12 * V), y(2 * 3 * pixels * V, -1), wanted(y);
  std::iota(sums.begin(), sums.end(), 0);
  const auto y_of = [&](std::size_t n) { return y.data() + n * 3 * pixels * V; };
  const auto epilogue_of = [](std::size_t n, int f) {
    return adding_epilogue{static_cast<std::int32_t>(1000 * n) + 100 * f};
  };
  deferred_epilogue<V, decltype(y_of), decltype(epilogue_of)> epilogue(y_of, epilogue_of, pixels);
  const auto add = [&](std::size_t n, int f, std::size_t first, std::size_t count,
                       std::size_t from) {
    epilogue.add(n, {f, 1, first, count, sums.data() + from * V, 0});
    for (std::size_t i = 0; i < count * V; ++i)
      wanted[((n * 3 + static_cast<std::size_t>(f)) * pixels + first) * V + i] =
          sums[from * V + i] + static_cast<std::int32_t>(1000 * n) + 100 * f;
  };
  add(0, 2, 3, 6, 0);
  add(1, 0, 0, 3, 6);
  CHECK(epilogue.slices() == 3);
  epilogue.run_slices(1);
  CHECK(epilogue.slices() == 2);
  add(1, 1, 8, 1, 9);      // while others wait
  epilogue.run_slices(2);  // of two runs
  CHECK(epilogue.slices() == 1);
  epilogue.finish();
  CHECK(epilogue.slices() == 0);
  CHECK(y == wanted);
  add(0, 0, 1, 4, 8);
  CHECK(epilogue.slices() == 1);
  epilogue.finish();
  epilogue.run_slices(3);  // nothing is left
  CHECK(y == wanted);
}
