// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The two passes of a resize in integers, one number after another: what every processor's vectors
// compute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/resize.hpp>

#include "tests/support/noise.hpp"

namespace support {

struct scalar_passes {
  using number = std::uint8_t;

  void prepare(const cordee::detail::images::triangle_filter&, int) {}
  void resize_columns(const cordee::detail::images::triangle_filter& columns,
                      const std::uint8_t* rgb, std::uint8_t* out) const {
    for (int k = 0; k < columns.outputs(); ++k)
      for (int c = 0; c < 3; ++c)
        out[4 * k + c] = sum(columns, k, [&](int t) {
          return rgb[3 * (columns.first(k) - columns.begin() + t) + c];
        });
  }
  void resize_rows(const cordee::detail::images::triangle_filter& rows, int y,
                   const std::uint8_t* const* in, int width, std::uint8_t* out,
                   std::size_t plane) const {
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        out[static_cast<std::size_t>(c) * plane + static_cast<std::size_t>(x)] =
            sum(rows, y, [&](int t) { return in[t][4 * x + c]; });
  }

 private:
  template <class ByteOf>
  static std::uint8_t sum(const cordee::detail::images::triangle_filter& filter, int k,
                          const ByteOf& byte_of) {
    int sum = 1 << filter.precision() >> 1;
    for (int t = 0; t < filter.taps(); ++t) sum += filter.weights(k)[t] * byte_of(t);
    return static_cast<std::uint8_t>(sum >> filter.precision());
  }
};

/// The bytes of Passes are those of scalar_passes, whatever lies behind the source, and those of
/// portable_passes for up to eight taps: beyond, its sums of floats are rounded.
template <class Passes>
void check_passes() {
  using namespace cordee::detail::images;
  basic_resizer<portable_passes> portable;
  basic_resizer<scalar_passes> scalar;
  basic_resizer<Passes> vectors;
  for (const int from : {1, 2, 3, 4, 5, 7, 12, 33, 70})
    for (const int to : {1, 2, 3, 5, 8, 9, 31}) {
      CAPTURE(from);
      CAPTURE(to);
      const cordee::image_size source{from, from + 1}, size{to, to + 1};
      std::vector<std::uint8_t> in = noise(source.width, source.height);
      in.resize(in.size() + vectors.slack);
      const auto resized = [&](auto& resizer) {
        std::vector<std::uint8_t> out(static_cast<std::size_t>(3 * size.width * size.height));
        resizer.prepare(source, size, {0, 0, size.width, size.height});
        resizer.resize(in, out);
        return out;
      };
      const auto wanted = resized(scalar);
      CHECK(resized(vectors) == wanted);
      if (from <= 4 * to) CHECK(resized(portable) == wanted);
      std::fill(in.end() - static_cast<std::ptrdiff_t>(vectors.slack), in.end(), 0xff);
      CHECK(resized(vectors) == wanted);
    }
}

}  // namespace support
