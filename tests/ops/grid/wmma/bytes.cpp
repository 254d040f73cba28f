// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/grid/wmma/bytes.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/byte_engines.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

static_assert(ByteEngine<wmma, emulated::stream>);

TEST_CASE(
    "wmma: bytes are convolved exactly, by every window, stride, padding, tail and zero point") {
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 3, 1, 1},
                                       {{17, 5, 4}, 40, 3, 2, 1},
                                       {{16, 4, 5}, 3, 1, 2, 0},
                                       {{3, 9, 8}, 4, 7, 2, 3},
                                       {{2, 4, 3}, 2, 2, 1, 2},
                                       {{40, 2, 3}, 72, 1, 1, 0}})
    for (const int zero : {0, 128, 255})
      check_bytes<wmma>(p, zero == 0 ? 5 : 1, zero,
                        emulated::stream(1 + static_cast<std::uint64_t>(zero)));
}

namespace {

/// Numbers that bf16 holds, and whose sums of products are exact in float.
std::vector<double> short_halves(std::size_t n, std::uint64_t which) {
  random_sequence draw(7, purpose::test, which, 0);
  std::vector<double> v(n);
  for (double& x : v) x = draw.below(64) / 16.0 - 2;
  return v;
}

void gradients_are_the_definitions(const convolution_problem& p, int samples,
                                   const emulated::stream& s) {
  INFO(to_text(p), ", samples ", samples);
  // 255 steps of 1 / 128, and inputs on quarters of a step, some beyond the range.
  const affine<float> k = fit_affine(-127.0f / 128, 1.0f, unsigned_bytes);
  REQUIRE(k.scale == 0x1p-7f);
  random_sequence draw(8, purpose::test, 1, 0);
  std::vector<double> x(size(samples) * p.in.size()), left(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = draw.below(1400) / 512.0 - 1.35;
    left[i] = k.simulate(static_cast<float>(x[i]));
  }
  const auto w = short_halves(p.weights(), 2), dw0 = short_halves(w.size(), 3),
             dy = short_halves(size(samples) * p.out().size(), 4), dx0 = short_halves(x.size(), 5);
  std::vector<double> dx(x.size()), dw(w.size());
  each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    if (k.passes(static_cast<float>(x[ix]))) dx[ix] += w[iw] * dy[iy];
    dw[iw] += dy[iy] * left[ix];
  });
  const int in = wmma::block<float>(p.in.channels), out = wmma::block<float>(p.filters);
  const auto there_x = blocked<float>(x, p.in, samples, in),
             there_dy = blocked<float>(dy, p.out(), samples, out);
  const std::vector<float> there_w(w.begin(), w.end());
  std::vector<bfloat> packed(wmma::packed_left(p));
  wmma::pack_left(p, there_w.data(), packed.data(), s);
  for (const into how : {into::overwrite, into::add}) {
    auto to = blocked<float>(dx0, p.in, samples, in);
    std::vector<float> to_w(dw0.begin(), dw0.end());
    wmma::backward_bytes(p, samples, there_x.data(), &k, there_dy.data(), packed.data(),
                         to_w.data(), how, to.data(), how, s);
    auto wanted = dx;
    std::vector<float> wanted_w(dw.begin(), dw.end());
    for (std::size_t i = 0; how == into::add && i < dx.size(); ++i) wanted[i] += dx0[i];
    for (std::size_t i = 0; how == into::add && i < dw.size(); ++i)
      wanted_w[i] += static_cast<float>(dw0[i]);
    CHECK(plain(to, p.in, samples, in) == wanted);
    CHECK(filling(to, p.in, samples, in) == 0);
    CHECK(to_w == wanted_w);
    wmma::backward_bytes(p, samples, there_x.data(), &k, there_dy.data(), packed.data(),
                         to_w.data(), into::overwrite, static_cast<float*>(nullptr), how, s);
    CHECK(to_w == std::vector<float>(dw.begin(), dw.end()));
  }
}

}  // namespace

TEST_CASE("wmma: gradients behind bytes are the definition's, of what quantisation left") {
  gradients_are_the_definitions({{3, 5, 4}, 17, 3, 1, 1}, 2, emulated::stream(1));
  gradients_are_the_definitions({{20, 5, 4}, 9, 3, 2, 1}, 1, emulated::stream(2));
  gradients_are_the_definitions({{9, 4, 5}, 3, 1, 2, 0}, 3, emulated::stream(3));
  gradients_are_the_definitions({{2, 3, 3}, 2, 1, 1, 0}, 0, emulated::stream(3));
}

TEST_CASE("wmma: the largest sums of bytes do not saturate") {
  const convolution_problem p{{257, 1, 1}, 1, 1, 1, 0};
  const emulated::stream s;
  const std::vector<std::uint8_t> x(sample_size(p.in, wmma::block<float>(257)), 255);
  const std::vector<std::int8_t> w(257, 127);
  std::vector<std::int8_t> image(wmma::packed_bytes(p));
  wmma::pack_bytes(p, w.data(), image.data(), s);
  std::vector<std::int32_t> sums(16, 99);
  const affine<float> k{1, 1, 0, unsigned_bytes};
  wmma::fprop_bytes(p, 1, x.data(), &k, image.data(), static_cast<const float*>(nullptr),
                    sums.data(), s);
  CHECK(sums[0] == 257 * 255 * 127);
  CHECK(sums[1] == 0);
}
