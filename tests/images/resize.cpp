// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/resampling.hpp>
#include <cordee/images/resize.hpp>

#include "tests/support/noise.hpp"
#include "tests/support/torchvision_goldens.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

using bytes = std::vector<std::uint8_t>;

bytes crop(const bytes& rgb, int width, const region& r) {
  bytes out;
  for (int y = r.top; y < r.top + r.height; ++y) {
    const auto row = rgb.begin() + 3 * (std::ptrdiff_t{y} * width + r.left);
    out.insert(out.end(), row, row + 3 * std::ptrdiff_t{r.width});
  }
  return out;
}

/// `window` of rgb resized from `from` to `to`; bytes around the result stay what they were.
template <class Passes>
bytes resized(basic_resizer<Passes>& resizer, const bytes& rgb, image_size from, image_size to,
              const region& window) {
  const region needed = resizer.prepare(from, to, window);
  REQUIRE(lies_in(needed, from));
  bytes source = crop(rgb, from.width, needed);
  source.resize(source.size() + basic_resizer<Passes>::slack, 0xee);
  constexpr std::size_t guard = 64;
  const auto size =
      3 * static_cast<std::size_t>(window.width) * static_cast<std::size_t>(window.height);
  bytes out(size + 2 * guard, 0xa5);
  resizer.resize(source, std::span(out).subspan(guard, size));
  for (std::size_t k = 0; k < guard; ++k)
    REQUIRE((out[k] == 0xa5 && out[guard + size + k] == 0xa5));
  return {out.begin() + guard, out.end() - guard};
}

int largest_difference(const bytes& a, const bytes& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k] - b[k]));
  return largest;
}

/// The definition in double precision, each pass rounded to the nearest byte.
bytes by_definition(const bytes& rgb, image_size from, image_size to) {
  const auto pass = [](const bytes& in, int rows, int n, int m, int step) {
    // in: (rows, n) of `step` numbers   out: (rows, m)
    bytes out;
    const double s = static_cast<double>(n) / m, r = std::max(s, 1.0);
    for (int y = 0; y < rows; ++y)
      for (int k = 0; k < m; ++k)
        for (int c = 0; c < step; ++c) {
          double sum = 0, weights = 0;
          for (int j = 0; j < n; ++j) {
            const double w = std::max(0.0, 1 - std::abs(j + 0.5 - s * (k + 0.5)) / r);
            weights += w;
            sum += w * in[(static_cast<std::size_t>(y) * static_cast<std::size_t>(n) +
                           static_cast<std::size_t>(j)) *
                              static_cast<std::size_t>(step) +
                          static_cast<std::size_t>(c)];
          }
          out.push_back(static_cast<std::uint8_t>(std::lround(sum / weights)));
        }
    return out;
  };
  const bytes columns = pass(rgb, from.height, from.width, to.width, 3);
  return planar(pass(columns, 1, from.height, to.height, 3 * to.width));
}

}  // namespace

TEST_CASE_TEMPLATE("resize equals torchvision's bytes, and Pillow's within a grey level", Resizer,
                   basic_resizer<portable_passes>, resizer) {
  Resizer resizer;
  for (const resized_golden& g : resized_goldens) {
    CAPTURE(g.source.width);
    const bytes rgb = crop(noise(g.source.width, g.source.height), g.source.width, g.box);
    const bytes out = resized(resizer, rgb, {g.box.width, g.box.height}, g.resized, g.window);
    // Sums of floats are rounded a last time for filters of more than eight taps.
    const bool exact = !std::same_as<Resizer, basic_resizer<portable_passes>> ||
                       (g.box.width <= 4 * g.resized.width && g.box.height <= 4 * g.resized.height);
    CHECK(largest_difference(out, from_hexadecimal(g.torchvision)) <= (exact ? 0 : 1));
    CHECK(largest_difference(out, from_hexadecimal(g.pillow)) <= 1);
  }
}

TEST_CASE("the evaluation crop equals torchvision's Resize and CenterCrop") {
  resizer r;
  for (const evaluation_golden& g : evaluation_goldens) {
    CAPTURE(g.source.width);
    const resampling_plan p = resize_center_crop{g.resize, g.crop}(g.source);
    CHECK(resized(r, noise(g.source.width, g.source.height), g.source, p.resized, p.window) ==
          from_hexadecimal(g.pixels));
  }
}

TEST_CASE_TEMPLATE(
    "resize is the definition within a grey level, all windows are parts of the whole", Resizer,
    basic_resizer<portable_passes>, resizer) {
  Resizer resizer;
  for (const auto& [from, to] : std::vector<std::pair<image_size, image_size>>{
           {{1, 1}, {5, 4}}, {{37, 23}, {17, 19}}, {{10, 12}, {33, 9}}, {{64, 3}, {3, 8}}}) {
    CAPTURE(from.width);
    CAPTURE(to.width);
    const bytes rgb = noise(from.width, from.height);
    const region all{0, 0, to.width, to.height};
    const bytes whole = resized(resizer, rgb, from, to, all);
    // Weights are off by half a unit of 2^-14 at most: over 45 taps and two passes less than 1/2.
    CHECK(largest_difference(whole, by_definition(rgb, from, to)) <= 1);
    for (const region& window :
         {region{0, 0, 1, 1}, region{to.width - 1, to.height - 1, 1, 1},
          region{to.width / 3, to.height / 4, to.width / 2, to.height / 2}}) {
      if (!lies_in(window, to)) continue;
      const bytes part = resized(resizer, rgb, from, to, window);
      bytes expected;
      for (int c = 0; c < 3; ++c)
        for (int y = window.top; y < window.top + window.height; ++y)
          for (int x = window.left; x < window.left + window.width; ++x)
            expected.push_back(whole[static_cast<std::size_t>((c * to.height + y) * to.width + x)]);
      CHECK(part == expected);
    }
  }
}

TEST_CASE_TEMPLATE("resize keeps a constant image, white included", Resizer,
                   basic_resizer<portable_passes>, resizer) {
  Resizer resizer;
  for (const std::uint8_t level : std::vector<std::uint8_t>{0, 1, 127, 255})
    for (const image_size to : {image_size{7, 50}, image_size{90, 3}, image_size{224, 224}}) {
      const bytes rgb(3 * 61 * 47, level);
      const bytes out = resized(resizer, rgb, {61, 47}, to, {0, 0, to.width, to.height});
      CHECK(std::count(out.begin(), out.end(), level) == std::ssize(out));
    }
}

TEST_CASE("resize refuses buffers of another size, and windows outside") {
  resizer r;
  CHECK_THROWS_AS(r.prepare({0, 5}, {5, 5}, {0, 0, 5, 5}), usage_error);
  CHECK_THROWS_AS(r.prepare({5, 5}, {5, 5}, {1, 0, 5, 5}), usage_error);
  r.prepare({4, 4}, {2, 2}, {0, 0, 2, 2});
  bytes in(3 * 16 + resizer::slack), out(12);
  CHECK_NOTHROW(r.resize(in, out));
  CHECK_THROWS_AS(r.resize(std::span(in).first(3 * 16), out), usage_error);
  CHECK_THROWS_AS(r.resize(in, std::span(out).first(11)), usage_error);
}
