// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/byte_planes.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr int V = lanes<float>;

}  // namespace

TEST_CASE("byte_planes: a pixel has 16, 32 or 64 bytes, few channels a column of several rows") {
  const auto cell = [](int channels, int stride) {
    return byte_planes<V>({{channels, 9, 9}, 1, 3, stride, 1}).cell;
  };
  CHECK(cell(5, 1) == 16);
  CHECK(cell(17, 2) == 32);
  CHECK(cell(33, 1) == 64);
  CHECK(cell(200, 1) == 64);
  CHECK(cell(3, 1) == 3);
  CHECK(cell(3, 2) == 6);
  // The stem of an ImageNet network: 4 tiles of 42 bytes for 7 rows of 21.
  const byte_planes<V> stem({{3, 224, 224}, 64, 7, 2, 3});
  CHECK(stem.window_rows * stem.window_tiles() == 4);
  CHECK(stem.window_bytes() == 42);
}

TEST_CASE("byte_planes: the window of every pixel of the output lies at its place") {
  constexpr std::uint8_t zero_point = 201;
  for (const int channels : {1, 3, 5, 40, 70})
    for (const int stride : {1, 2, 3})
      for (const int window : {1, 3, 4})
        for (const int padding : {0, 2}) {
          const convolution_problem p{{channels, 7, 5}, 1, window, stride, padding};
          CAPTURE(channels);
          CAPTURE(stride);
          CAPTURE(window);
          CAPTURE(padding);
          const byte_planes<V> planes(p);
          const auto number = [](int c, int h, int w) {
            return static_cast<std::uint8_t>(7 * c + 31 * h + 5 * w);
          };
          const int block = planes.block;
          std::vector<std::uint8_t> x(sample_size(p.in, block));
          for (int c = 0; c < channels; ++c)
            for (int h = 0; h < 7; ++h)
              for (int w = 0; w < 5; ++w)
                x[static_cast<std::size_t>(((c / block * 7 + h) * 5 + w) * block + c % block)] =
                    number(c, h, w);
          const extent out = p.out();
          for (const int first : {0, out.height / 2}) {
            const int rows = out.height - first;
            const std::size_t size = planes.size(rows);
            std::vector<std::uint8_t> copy(size + planes.tail());
            planes.copy(x.data(), 0, zero_point, first, rows, copy.data(), planes.plane(rows),
                        copy.data() + size);
            const auto byte_at = [&](int i, int j, int c, int r, int s) {
              const auto [row, byte] = planes.place_of(c, r, s);
              const int of_group = row % planes.window_rows, t = planes.phases;
              return copy[static_cast<std::size_t>(row / planes.window_rows * planes.plane(rows) +
                                                   of_group % t * planes.phase(rows) +
                                                   of_group / t * planes.row() +
                                                   (i * planes.pitch + j) * planes.step() + byte)];
            };
            int wrong = 0;
            for (int i = 0; i < rows; ++i)
              for (int j = 0; j < out.width; ++j)
                for (int c = 0; c < channels; ++c)
                  for (int tap = 0; tap < window * window; ++tap) {
                    const int r = tap / window, s = tap % window,
                              h = (first + i) * stride + r - padding, w = j * stride + s - padding;
                    const bool inside = h >= 0 && h < 7 && w >= 0 && w < 5;
                    wrong += byte_at(i, j, c, r, s) != (inside ? number(c, h, w) : zero_point);
                  }
            CHECK(wrong == 0);
          }
        }
}
