// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/summed_steps.hpp>

using namespace cordee;
using namespace cordee::detail::optim;

namespace {

// Two segments, the second of a length that leaves part of a SIMD register.
constexpr std::array table{segment{"W", kind::weight, 0, 37}, segment{"b", kind::bias, 64, 5}};
constexpr std::size_t size = 128;

std::vector<double> numbers_of(double seed) {
  std::vector<double> x(size);
  for (std::size_t i = 0; i < size; ++i) x[i] = std::sin(seed + static_cast<double>(i));
  return x;
}

template <class F>
void for_numbers(const F& f) {
  for (std::size_t k = 0; k < table.size(); ++k)
    for (std::size_t i = table[k].offset; i < table[k].end(); ++i) f(k, i);
}

}  // namespace

TEST_CASE(
    "summed_steps: an exchange of one rank's own sum leaves its weights, and the mean moment") {
  auto w = numbers_of(1), a = numbers_of(2), m = numbers_of(3), v = numbers_of(4);
  for (double& x : v) x *= x;
  v[3] = 0;
  const auto own = w, last = a, before = m;
  std::vector<double> g(size), sums{0.25, 0.0};
  const cpu::stream s = cpu(1).make_stream();
  segmented_for<double>(s, table,
                        summed_steps<double>{w.data(), a.data(), v.data(), g.data(), 1e-3});
  for_numbers([&](std::size_t, std::size_t i) {
    const double root = std::sqrt(v[i]) + 1e-3;
    CHECK(std::abs(g[i] - (i == 3 ? 0 : (last[i] - own[i]) * root)) <= 1e-15);
  });
  g[3] = 0.5;  // where v is zero a code of signs has a number, too, which moves no weight
  segmented_for<double>(
      s, table,
      exchanged_steps<double>{w.data(), m.data(), a.data(), v.data(), g.data(), sums.data(), 1e-3});
  for_numbers([&](std::size_t k, std::size_t i) {
    CHECK(a[i] == w[i]);
    CHECK(std::abs(w[i] - (i == 3 ? last[i] : own[i])) <= 1e-14);
    // Where no learning rate has been, m stays: no step tells what it was.
    CHECK(m[i] == (k == 1 ? before[i] : g[i] / 0.25));
  });
  CHECK(g[40] == 0);  // the padding
}

TEST_CASE("summed_steps: decay by kinds, at a step's learning rate") {
  auto x = numbers_of(5);
  const auto before = x;
  const step_info info{.learning_rate = 0.5};
  segmented_for<double>(cpu(1).make_stream(), table,
                        decayed_numbers<double>{x.data(), &info, 0.1, kind::weight});
  for_numbers([&](std::size_t k, std::size_t i) {
    CHECK(x[i] == (k == 0 ? (1 - 0.5 * 0.1) * before[i] : before[i]));
  });
}

TEST_CASE("summed_steps: extreme numbers leave finite ones, a sum of rates is added and cleared") {
  constexpr float most = std::numeric_limits<float>::max();
  for (const float size_of : {1e-38f, 1.0f, most})
    for (const double rates : {0.0, 1e-300, 1e300}) {
      std::vector<float> w(size, size_of), a(size, -size_of), m(size, most), v(size, size_of),
          g(size);
      v[3] = 0;
      const std::vector<double> sums{rates, rates};
      const cpu::stream s = cpu(1).make_stream();
      segmented_for<float>(s, table,
                           summed_steps<float>{w.data(), a.data(), v.data(), g.data(), 1e-8f});
      segmented_for<float>(s, table,
                           exchanged_steps<float>{w.data(), m.data(), a.data(), v.data(), g.data(),
                                                  sums.data(), 1e-8f});
      for_numbers([&](std::size_t, std::size_t i) {
        CHECK((std::isfinite(w[i]) && std::isfinite(m[i]) && std::isfinite(g[i])));
      });
    }
  double sum = 1;
  const step_info info{.learning_rate = 0.5};
  rate_sum_op{&info, &sum}(0);
  CHECK(sum == 1.5);
  rate_sum_op{nullptr, &sum}(0);
  CHECK(sum == 0);
}
