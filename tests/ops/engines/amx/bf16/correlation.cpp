// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop and dgrad on tiles have the bits of a plain loop in the order of sums that
// bf16/correlation.hpp and tiles/tile_unit.hpp state, for windows, strides, paddings, channels and
// samples of every kind.
#include <cmath>
#include <limits>
#include <vector>

#include <cordee/ops/engines/amx/engine.hpp>

#include "tests/ops/engines/amx/tested_unit.hpp"
#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using modelled = amx_with<tested_unit>;

/// Pixel `at` of a row or column, that the taps of one output read in this order.
struct read_pixel {
  int at, tap;
};
/// In the order of their pixels, those outside the image too: their products are zeros.
std::vector<read_pixel> pixels_of(const convolution_problem& p, bool backward, int output) {
  std::vector<read_pixel> pixels;
  for (int r = 0; r < p.window; ++r) {
    if (!backward) {
      pixels.push_back({output * p.stride + r - p.padding, r});
    } else {
      const int tap = p.window - 1 - r, at = output + p.padding - tap;
      if ((at % p.stride + p.stride) % p.stride == 0) pixels.push_back({at / p.stride, tap});
    }
  }
  return pixels;
}

/// One direction by the order of sums: x and the result in NCHW.
std::vector<double> in_order(const convolution_problem& p, bool backward, int samples,
                             const std::vector<double>& x, const std::vector<double>& w,
                             const std::vector<double>& before) {
  const extent in = backward ? p.out() : p.in, out = backward ? p.in : p.out();
  const int block = in.channels <= 4 ? in.channels : in.channels < 32 ? 16 : 32;
  const int pixel = block == 1 ? 2 : block == 3 ? 4 : block;
  std::vector<double> y(size(samples) * out.size());
  for (std::size_t index = 0; index < y.size(); ++index) {
    const int j = static_cast<int>(index) % out.width,
              i = static_cast<int>(index) / out.width % out.height,
              k = static_cast<int>(index / out.pixels()) % out.channels;
    const std::size_t n = index / out.size();
    const auto rows = pixels_of(p, backward, i), columns = pixels_of(p, backward, j);
    const int numbers = static_cast<int>(columns.size()) * pixel, chunks = (numbers + 31) / 32,
              chunk = chunks == 0 ? 0 : ((numbers + chunks - 1) / chunks + 1) / 2 * 2;
    float sum = 0;
    for (int first = 0; first < in.channels; first += block)
      for (const read_pixel& row : rows)
        for (int from = 0; from < numbers; from += chunk) {
          float part[2] = {};  // even and odd
          for (int number = from; number < std::min(numbers, from + chunk); ++number) {
            const read_pixel column = columns[size(number / pixel)];
            const int c = first + number % pixel;
            if (number % pixel >= block || c >= in.channels || row.at < 0 || column.at < 0 ||
                row.at >= in.height || column.at >= in.width)
              continue;
            const int filter = backward ? c : k, channel = backward ? k : c;
            const double weight = w[size(
                ((filter * p.in.channels + channel) * p.window + row.tap) * p.window + column.tap)];
            float& to = part[number % 2];
            to = std::fma(
                static_cast<float>(
                    x[n * in.size() + size((c * in.height + row.at) * in.width + column.at)]),
                static_cast<float>(weight), to);
          }
          sum += part[0] + part[1];
        }
    if (!before.empty()) sum += static_cast<float>(before[index]);
    y[index] = bfloat::nearest(sum).exact();
  }
  return y;
}

std::size_t differences(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

void check_order(const convolution_problem& p, int samples, cpu::stream s = {}) {
  INFO(describe(p), ", samples ", samples);
  const std::size_t n = size(samples);
  const auto x = random_numbers<bfloat>(n * p.in.size(), 1),
             w = random_numbers<bfloat>(p.weights(), 2),
             dy = random_numbers<bfloat>(n * p.out().size(), 3),
             before = random_numbers<bfloat>(n * p.in.size(), 4);
  harness<modelled, bfloat> engine{p, samples, s};
  CHECK(differences(engine.fprop(x, w), in_order(p, false, samples, x, w, {})) == 0);
  CHECK(differences(engine.dgrad(dy, w), in_order(p, true, samples, dy, w, {})) == 0);
  CHECK(differences(engine.dgrad(dy, w, before), in_order(p, true, samples, dy, w, before)) == 0);
  CHECK(engine.padding == 0);
}

}  // namespace

TEST_CASE("amx: sums are made in the stated order, for windows, strides, paddings and channels" *
          doctest::skip(!has_tested_unit())) {
  constexpr int channels[] = {1, 3, 10, 16, 31, 32, 33, 48, 64, 96}, samples[] = {1, 2, 3, 5};
  int i = 0;
  for (const int window : {1, 3, 5, 7})
    for (const int stride : {1, 2, 3})
      for (int padding = 0; padding < window; ++padding, ++i)
        check_order({{channels[i % 10], std::max(3 + i % 5, window), std::max(7 - i % 4, window)},
                     channels[(7 * i + 3) % 10],
                     window,
                     stride,
                     padding},
                    samples[i % 4]);
}

TEST_CASE("amx: sums are made in the stated order where an input is read in place" *
          doctest::skip(!has_tested_unit())) {
  for (const int channels : {16, 32, 40}) {
    check_order({{channels, 7, 7}, 32, 1, 1, 0}, 1);    // the last tile overlaps the one before it
    check_order({{channels, 4, 8}, 17, 1, 1, 0}, 2);    // whole tiles
    check_order({{channels, 9, 8}, 32, 3, 1, 0}, 1);    // a window that has no padding
    check_order({{channels, 11, 11}, 48, 1, 2, 0}, 1);  // dgrad
    check_order({{channels, 8, 12}, 48, 1, 2, 0}, 3);   // dgrad of whole cells of a pixel and zeros
    check_order({{channels, 9, 6}, 32, 1, 3, 0}, 2);
    check_order({{channels, 8, 12}, 48, 1, 2, 1}, 2);
  }
}

TEST_CASE("amx: sums are made in the stated order where samples are computed together" *
          doctest::skip(!has_tested_unit())) {
  const cpu device(2);
  for (const int samples : {2, 4, 9, 16, 19}) {
    check_order({{32, 7, 7}, 32, 3, 1, 1}, samples);
    check_order({{33, 4, 4}, 16, 3, 2, 1}, samples, device.make_stream());
    check_order({{32, 3, 5}, 33, 1, 1, 0}, samples, device.make_stream());
  }
}

TEST_CASE("amx: a NaN reaches all sums that it is part of, and no other sample or filter" *
          doctest::skip(!has_tested_unit())) {
  const double bad = std::numeric_limits<double>::quiet_NaN();
  for (const convolution_problem& p : {convolution_problem{{32, 6, 7}, 32, 3, 1, 1},
                                       {{3, 6, 7}, 16, 3, 2, 1},
                                       {{16, 7, 7}, 17, 5, 2, 2},
                                       {{32, 6, 5}, 16, 1, 2, 0}})
    for (const std::size_t pixel : {0u, 3u, 29u}) {
      CAPTURE(describe(p));
      CAPTURE(pixel);
      auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2);
      std::vector<bool> hit(2 * p.out().size());
      for_each_product(p, 2, [&](std::size_t, std::size_t ix, std::size_t iy) {
        if (ix == pixel) hit[iy] = true;
      });
      x[pixel] = bad;
      const auto y = harness<modelled, bfloat>{p, 2}.fprop(x, w);
      std::size_t missed = 0, beyond = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        missed += hit[i] && !std::isnan(y[i]);
        beyond += i >= p.out().size() && std::isnan(y[i]);
      }
      CHECK(missed == 0);
      CHECK(beyond == 0);
    }
}
