// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/sequential.hpp>

#include "tests/nn/lone.hpp"

using namespace cordee;

namespace {

/// Whatever the window: a stride of s keeps every s-th pixel, the first one included.
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

TEST_CASE("convolution: it is padded by half its window, so the stride alone divides the image") {
  static_assert(keeps_every_nth_pixel<1, 1>() && keeps_every_nth_pixel<3, 1>() &&
                keeps_every_nth_pixel<7, 1>());
  static_assert(keeps_every_nth_pixel<1, 2>() && keeps_every_nth_pixel<3, 2>() &&
                keeps_every_nth_pixel<5, 2>() && keeps_every_nth_pixel<3, 3>());
  static_assert(convolution<8>::problem({3, 9, 7}) == convolution_problem{{3, 9, 7}, 8, 3, 1, 1});
  static_assert(convolution<8, 5, 2>::problem({3, 9, 7}).padding == 2);
}

TEST_CASE("convolution: one weight, no bias, in torchvision's shape and name") {
  using table =
      parameter_table<sequential<convolution<6, 5, 2>, convolution<4, 1>>, extent{3, 9, 8}>;
  REQUIRE(table::segments.size() == 2);
  const segment first = table::segments[0], second = table::segments[1];
  CHECK(first.name == "conv1.weight");
  CHECK(second.name == "conv2.weight");
  CHECK(first.what == kind::weight);
  CHECK(first.shape == std::array{6, 3, 5, 5});
  CHECK(first.size == 6 * 3 * 25);
  CHECK(second.shape == std::array{4, 6, 1, 1});
  CHECK(table::totals.convolutions == 2);
  CHECK(table::totals.parameters == 6 * 3 * 25 + 4 * 6);
  CHECK(table::totals.macs == (6 * 3 * 25 + 4 * 6) * 5 * 4);
}

TEST_CASE("convolution: it begins with mean zero and the variance of He et al., by the fan out") {
  const auto begins = []<class L>(L) { return parameter_table<L, extent{3, 9, 8}>::beginnings[0]; };
  CHECK(begins(convolution<16>{}).mean == 0);
  CHECK(begins(convolution<16>{}).variance == doctest::Approx(2.0 / (16 * 9)));
  CHECK(begins(convolution<64, 1>{}).variance == doctest::Approx(2.0 / 64));
  CHECK(begins(convolution<10, 5, 2>{}).variance == doctest::Approx(2.0 / 250));
}

TEST_CASE("convolution: gradients are derivatives, wherever the input's goes") {
  lone<convolution<3>, extent{2, 4, 5}> same(3);
  same.randomise();
  same.check_backward();
  lone<convolution<4, 5, 2>, extent{2, 5, 4}> strided(2);
  strided.randomise();
  strided.check_backward();
  lone<convolution<2, 1>, extent{3, 1, 2}> point(2);
  point.randomise();
  point.check_backward();
}

TEST_CASE("convolution: it reads what was published, not the masters") {
  lone<convolution<3>, extent{2, 4, 5}> at(2);
  at.randomise();
  at.publish();
  const auto before = at.forward();
  for (double& w : at.of(0)) w = -w;
  CHECK(at.forward() == before);
  at.publish();
  auto after = at.forward();
  for (double& v : after) v = -v;
  CHECK(after == before);
}

TEST_CASE("convolution: several layers keep their places in table, image and activations") {
  // The second layer of a pair reads its own weights: with those zero, nothing comes out.
  lone<sequential<convolution<3>, convolution<2, 1>>, extent{2, 4, 5}> pair(2);
  pair.randomise();
  for (double& w : pair.of(1)) w = 0;
  pair.publish();
  const auto y = pair.forward();
  CHECK(y == std::vector<double>(y.size()));
  pair.randomise();
  pair.publish();
  CHECK(pair.forward() != y);
  CHECK(pair.place.next == 2);
  CHECK(pair.place.activation == 2);
  CHECK(pair.place.image >= (pair.of(0).size() + pair.of(1).size()) * sizeof(double));
}
