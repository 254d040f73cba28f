// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/packed_classifier.hpp>

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;

namespace {

constexpr int V = detail::ops::lanes<float>;

template <class T>
std::vector<T> drawn(std::size_t n, int bits, std::uint64_t seed) {
  random_sequence draw(seed, purpose::test, 0, 0);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(static_cast<std::int32_t>(draw.bits()) >> (32 - bits));
  return x;
}

}  // namespace

TEST_CASE("packed_classifier: of any number of features and classes it equals its definition") {
  for (const std::size_t features : {1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 64u, 2048u, 33000u})
    for (const std::size_t classes : {1u, 3u, 33u}) {
      integer_classifier c;
      c.features = features;
      c.classes = classes;
      c.weights = drawn<std::int16_t>(classes * features, 15, 4);
      for (auto& w : c.weights) w = std::clamp<std::int16_t>(w, -largest_weight, largest_weight);
      c.weights.front() = largest_weight;
      c.weights.back() = -largest_weight;
      c.bias = drawn<std::int64_t>(classes, 32, 5);
      c.bias.back() = std::int64_t{1} << 33;
      for (std::size_t k = 0; k < classes; ++k)
        c.factors.push_back(fixed_point::from_real(0.01 * static_cast<double>(1 + k)));
      const int bits = features >= 2048 ? 32 : 24;
      // The least shift with which every sum fits 31 bits, as a file's must.
      const std::int64_t bound =
          ((static_cast<std::int64_t>(features) * largest_weight) << (bits - 1)) + c.bias.back();
      while (bound >> c.shift > std::int64_t{1} << 30) ++c.shift;
      constexpr std::size_t samples = 3;
      const packed_classifier<V> packed(c);
      packed_classifier<V>::memory memory;
      const auto x = drawn<std::int32_t>(samples * features, bits, 6);
      std::vector<std::int32_t> logits(samples * classes), expected(logits.size());
      for (std::size_t n = 0; n < samples; ++n)
        integer_reference<>::classifier(c, x.data() + n * features, expected.data() + n * classes);
      for (const std::size_t parts : {1u, 2u, 3u, 8u}) {
        logits.assign(logits.size(), 0);
        for (std::size_t k = parts; k-- > 0;)
          packed.run(
              memory, samples, [&](std::size_t n) { return x.data() + n * features; },
              [&](std::size_t n) { return logits.data() + n * classes; }, {k, parts});
        CHECK(logits == expected);
      }
    }
}
