// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/folded_filter.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

/// The output for one sum of filter k: the convolution's 18 bits, then the batch norm's integers.
std::int64_t unfolded(const integer_convolution& c, const integer_batch_norm& n, std::size_t k,
                      std::int64_t sum) {
  return n.output(k, c.output(k, sum, std::int64_t{0}), std::int64_t{0});
}

}  // namespace

TEST_CASE("fold_filter: a negative unit turns the signs of the weights") {
  std::vector<std::int8_t> w{3, -127, 0};
  const folded_filter f = fold_filter(std::span(w), -0.5, 2);
  CHECK(w == std::vector<std::int8_t>{-3, 127, 0});
  CHECK(f.unit == 0.5);
  CHECK(f.magnitude == 130);
  CHECK(f.bound() == 0.5 * 255 * 130 + 2);
}

TEST_CASE("unfold_batch_norm: within a step of the real batch norm, clipped where that is") {
  // Usual ones of either sign, a filter of zeros, a norm of zeros, one that clips every sum but 0,
  // one of few sums, one whose bias alone is clipped.
  const std::vector<folded_filter> filters{
      {0.002, 10, 4000}, {-0.0007, 130, 30000}, {0.5, 3.25, 0},     {0, 77.75, 500},
      {1e9, 4, 900},     {40, -3, 2},           {0.01, 1e12, 3000}, {0.01, -1e12, 3000}};
  for (const double step : {1.0, 0.25}) {
    for (const bool wide : {false, true}) {
      const double unit = wide ? step / 10000 : step;
      integer_convolution c;
      c.bias.assign(filters.size(), 0);
      auto n = unfold_batch_norm(filters, unit, wide ? wide_limit : 256, wide ? 4096 : 0.25, c);
      REQUIRE(n);
      CHECK(c.low >= -norm_limit);
      CHECK(c.high < norm_limit);
      n->low = wide ? -wide_limit : 0;
      n->high = wide ? wide_limit : 255;
      for (std::size_t k = 0; k < filters.size(); ++k) {
        const folded_filter& f = filters[k];
        const auto most = static_cast<std::int64_t>(255 * f.magnitude);
        // The convolution rounds to 2^e of its sums, of which the norm makes `coarse`.
        const int e = 1 - c.factors[k].shift;
        const double coarse = e < 1 ? 0 : std::abs(f.unit) / unit * std::ldexp(1, e - 1);
        double worst = 0;
        // All sums, and those that a norm of bytes does not clip.
        for (const std::int64_t of :
             {most, std::min<std::int64_t>(most, std::llrint(600 / (std::abs(f.unit) + 1e-9)))})
          for (std::int64_t s = -of; s <= of; s += std::max<std::int64_t>(of / 5000, 1)) {
            const double real = (f.unit * static_cast<double>(s) + f.bias) / unit;
            const double wanted = std::clamp<double>(real, n->low, n->high);
            worst = std::max(worst, std::abs(static_cast<double>(unfolded(c, *n, k, s)) - wanted));
          }
        CAPTURE(k);
        CHECK(worst <= 0.5 + coarse + 1e-6);
        if (!wide) CHECK(worst < 0.505);  // 18 bits are much finer than bytes
      }
    }
  }
}
