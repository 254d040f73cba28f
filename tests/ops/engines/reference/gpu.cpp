// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/engines/reference/gpu.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

namespace {

enum class fault { none, tap, stride };

/// fprop with a planted fault: taps off by one (a wrong halo), or a stride one too long.
template <fault Planted>
struct faulty_fprop_op {
  convolution_problem p;
  const float* x;
  const float* w;
  float* y;

  void operator()(std::size_t at) const {
    constexpr int aside = Planted == fault::tap ? 1 : 0, longer = Planted == fault::stride ? 1 : 0;
    const auto [n, k, i, j] = detail::ops::nchw_index_of(p.out(), at);
    const int top = i * (p.stride + longer) - p.padding, left = j * (p.stride + longer) - p.padding;
    float sum = 0;
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int q = 0; q < p.window; ++q)
          sum += w[detail::ops::nchw_offset(detail::ops::filter_extent(p),
                                            static_cast<std::size_t>(k), c, r, q)] *
                 detail::ops::pixel(p.in, x, n, c, top + r + aside, left + q + aside);
    y[at] = sum;
  }
};

/// Whether the comparison that engines are tested by detects the fault on this layer.
template <fault Planted>
bool is_detected(const convolution_problem& p) {
  const device_fixture at{emulated{1}};
  return !fprop_is_the_definition<float>(at, p, 2, [&](const float* x, const float* w, float* y) {
    for_each(at.s, 2 * p.out().size(), faulty_fprop_op<Planted>{p, x, w, y});
  });
}

}  // namespace

static_assert(ConvolutionEngine<reference, half, float, emulated::stream> &&
              ConvolutionEngine<reference, double, double, emulated::stream> &&
              !ConvolutionEngine<reference, half, half, emulated::stream>);

TEST_CASE_TEMPLATE("reference on a GPU, emulated: the three passes are exact sums, rounded once", N,
                   half, bfloat, float) {
  for (const std::uint64_t seed : {1u, 2u})
    reference_is_the_definition<N, float>(device_fixture{emulated{seed}});
}
TEST_CASE("reference on a GPU, emulated: doubles are summed in double") {
  reference_is_the_definition<double, double>(device_fixture{emulated{3}});
}

TEST_CASE(
    "reference on a GPU, emulated: the comparison detects a wrong stride and a halo off by one") {
  for (const convolution_problem& p : few_shapes) {
    CAPTURE(describe(p));
    CHECK_FALSE(is_detected<fault::none>(p));
    CHECK(is_detected<fault::tap>(p));
    if (p.out().height * p.out().width > 1) CHECK(is_detected<fault::stride>(p));
  }
}
