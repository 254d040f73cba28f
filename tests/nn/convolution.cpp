// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/sequential.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

/// For any window, a stride of s keeps every s-th pixel from the first on.
template <int Window, int Stride>
constexpr bool keeps_every_nth_pixel() {
  for (int n = Stride; n < 40; ++n)
    if (convolution<7, Window, Stride>::out({3, n, n + 1}) !=
        extent{7, (n + Stride - 1) / Stride, (n + Stride) / Stride})
      return false;
  return true;
}

}  // namespace

static_assert(Layer<convolution<4>>);

TEST_CASE("convolution: padding by half the window, so that the stride alone divides the extent") {
  static_assert(keeps_every_nth_pixel<1, 1>() && keeps_every_nth_pixel<3, 1>() &&
                keeps_every_nth_pixel<7, 1>());
  static_assert(keeps_every_nth_pixel<1, 2>() && keeps_every_nth_pixel<3, 2>() &&
                keeps_every_nth_pixel<5, 2>() && keeps_every_nth_pixel<3, 3>());
  static_assert(convolution<8>::problem({3, 9, 7}) == convolution_problem{{3, 9, 7}, 8, 3, 1, 1});
  static_assert(convolution<8, 5, 2>::problem({3, 9, 7}).padding == 2);
}

TEST_CASE("convolution: one weight and no bias, with torchvision's shape and name") {
  using table =
      parameter_table<sequential<convolution<6, 5, 2>, convolution<4, 1>>, extent{3, 9, 8}>;
  REQUIRE(table::segments.size() == 2);
  const segment first = table::segments[0], second = table::segments[1];
  CHECK(first.name == "conv1.weight");
  CHECK(second.name == "conv2.weight");
  CHECK(first.kind == kind::weight);
  CHECK(first.shape == std::array<int, 6>{6, 3, 5, 5});
  CHECK(first.size == 6 * 3 * 25);
  CHECK(second.shape == std::array<int, 6>{4, 6, 1, 1});
  CHECK(table::totals.convolutions == 2);
  CHECK(table::totals.parameters == 6 * 3 * 25 + 4 * 6);
  CHECK(table::totals.macs == (6 * 3 * 25 + 4 * 6) * 5 * 4);
}

TEST_CASE("convolution: initial weights have mean zero and the variance of He et al., fan-out") {
  const auto initializer_of = []<class L>(L) {
    return parameter_table<L, extent{3, 9, 8}>::initializers[0];
  };
  CHECK(initializer_of(convolution<16>{}).mean == 0);
  CHECK(initializer_of(convolution<16>{}).variance == 2.0 / (16 * 9));
  CHECK(initializer_of(convolution<64, 1>{}).variance == 2.0 / 64);
  CHECK(initializer_of(convolution<10, 5, 2>{}).variance == 2.0 / 250);
}

TEST_CASE("convolution: layers have disjoint segments, packed parameters and activations") {
  // With weights of zero in the second layer the output is zero.
  layer_fixture<sequential<convolution<3>, convolution<2, 1>>, extent{2, 4, 5}> pair(2);
  pair.randomize();
  for (double& w : pair.of(1)) w = 0;
  pair.pack_parameters();
  const auto y = pair.forward();
  CHECK(y == std::vector<double>(y.size()));
  pair.randomize();
  pair.pack_parameters();
  CHECK(pair.forward() != y);
  CHECK(pair.layout.next_segment == 2);
  CHECK(pair.layout.activations == 2);
  CHECK(pair.layout.packed_size >= (pair.of(0).size() + pair.of(1).size()) * sizeof(double));
}
