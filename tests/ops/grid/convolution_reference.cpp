// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/convolution_reference.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

namespace {

enum class fault { none, tap, stride };

/// Fprop's body with one of the mistakes that kernels make: a tap beside the right one, so that the
/// halo is off by one, or steps that are one too long.
template <fault Planted>
struct faulty_fprop_at {
  convolution_problem p;
  const float* x;
  const float* w;
  float* y;

  void operator()(std::size_t at) const {
    constexpr int aside = Planted == fault::tap ? 1 : 0, longer = Planted == fault::stride ? 1 : 0;
    const auto [n, k, i, j] = detail::place_in(p.out(), at);
    const int top = i * (p.stride + longer) - p.padding, left = j * (p.stride + longer) - p.padding;
    float sum = 0;
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int q = 0; q < p.window; ++q)
          sum += w[detail::index_in(detail::filter_of(p), static_cast<std::size_t>(k), c, r, q)] *
                 detail::pixel(p.in, x, n, c, top + r + aside, left + q + aside);
    y[at] = sum;
  }
};

/// Whether it is told from the definition on that layer, by the comparison that engines are put to.
template <fault Planted>
bool is_told(const convolution_problem& p) {
  const bench_on at{emulated{1}};
  return !fprop_is_the_definition<float>(at, p, 2, [&](const float* x, const float* w, float* y) {
    for_each(at.s, 2 * p.out().size(), faulty_fprop_at<Planted>{p, x, w, y});
  });
}

}  // namespace

static_assert(ConvolutionEngine<reference, half, float, emulated::stream> &&
              ConvolutionEngine<reference, double, double, emulated::stream> &&
              !ConvolutionEngine<reference, half, half, emulated::stream>);

TEST_CASE_TEMPLATE("reference on grids: three sums, exact, rounded once", N, half, bfloat, float) {
  for (const std::uint64_t seed : {1u, 2u})
    reference_is_the_definition<N, float>(bench_on{emulated{seed}});
}
TEST_CASE("reference on grids: doubles are summed in double") {
  reference_is_the_definition<double, double>(bench_on{emulated{3}});
}

TEST_CASE("reference on grids: a wrong stride and a halo off by one are told from the definition") {
  for (const convolution_problem& p : few_shapes) {
    CAPTURE(to_text(p));
    CHECK_FALSE(is_told<fault::none>(p));
    CHECK(is_told<fault::tap>(p));
    if (p.out().height * p.out().width > 1) CHECK(is_told<fault::stride>(p));
  }
}
