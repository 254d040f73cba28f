// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/bf16/bfloat.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_packing.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr int V = lanes<float>;

template <class Number>
std::vector<std::uint16_t> bits(const std::vector<Number>& x) {
  std::vector<std::uint16_t> all;
  for (const Number n : x) all.push_back(n.bits);
  return all;
}

}  // namespace

constexpr bool applies = bfloat_packing<V>::applies_to({{V, 4, 4}, V, 3, 1, 1});
static_assert(applies == (bfloat_group<V, true> == 2));
static_assert(!bfloat_packing<V>::applies_to({{3, 4, 4}, V, 3, 1, 1}));
static_assert(!bfloat_packing<V>::applies_to({{V, 4, 4}, V + 1, 3, 1, 1}));

TEST_CASE("bfloat_packing: both directions are those that are packed number by number") {
  if (!applies) return;  // Arm's products are of four numbers
  const cpu device(2);
  for (const int window : {1, 2, 3})
    for (const int filters : {V, 3 * V}) {
      CAPTURE(window);
      CAPTURE(filters);
      const convolution_problem p{{2 * V, 4, 4}, filters, window, 1, 0};
      const auto master = normal_numbers<float>(p.weights(), 1);
      const bfloat_correlation<V, true> forward(p, false), backward(p, true);
      REQUIRE(forward.packed_size() == p.weights());
      std::vector<bfloat> fprop(p.weights()), dgrad(p.weights()), expected(p.weights());
      bfloat_packing<V>(p).pack(master.data(), fprop.data(), dgrad.data(), device.make_stream());
      forward.pack(master.data(), expected.data(), {});
      CHECK(bits(fprop) == bits(expected));
      backward.pack(master.data(), expected.data(), {});
      CHECK(bits(dgrad) == bits(expected));

      std::vector<float> wide(p.weights());  // (C/V, K/V, R, S, V of K, V of C)
      bfloat_packing<V>(p).pack(master.data(), fprop.data(), wide.data(), device.make_stream());
      const packed_form<V> form{2 * V, filters, window};
      bool same = true;
      for (int k = 0; k < filters; ++k)
        for (int c = 0; c < 2 * V; ++c)
          for (int tap = 0; tap < window * window; ++tap) {
            const float w =
                master[static_cast<std::size_t>((k * 2 * V + c) * window * window + tap)];
            const auto at = static_cast<std::size_t>(
                c / V * form.block_size() + form.at(k, tap / window, tap % window) + c % V);
            same &= wide[at] == bfloat::nearest(w).exact();
          }
      CHECK(same);
    }
}
