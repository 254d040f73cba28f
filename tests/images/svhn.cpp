// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#if defined(CORDEE_HAS_ZLIB)

#include <bit>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/data/split.hpp>
#include <cordee/images/svhn.hpp>
#include <cordee/testing/dataset_laws.hpp>

#include "tests/images/mat.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of (channel, row, column) of image i.
std::uint8_t pixel(std::size_t i, std::size_t channel, std::size_t row, std::size_t column) {
  return static_cast<std::uint8_t>(40 * i + 100 * channel + 3 * row + column * column);
}
file_bytes pixels(std::size_t count) {
  file_bytes x;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (std::size_t column = 0; column < 32; ++column)
        for (std::size_t row = 0; row < 32; ++row) x.push_back(pixel(i, channel, row, column));
  return x;
}
file_bytes doubles(const std::vector<double>& values) {
  file_bytes out;
  for (const double v : values) append_number(out, std::bit_cast<std::uint64_t>(v), 8);
  return out;
}
file_bytes x_of(std::uint32_t count, std::vector<std::uint32_t> dimensions = {}) {
  if (dimensions.empty()) dimensions = {32, 32, 3, count};
  return mat_compressed(mat_matrix("X", dimensions, 2, pixels(count)));
}
file_bytes y_of(const file_bytes& labels) {
  return mat_compressed(mat_matrix("y", {static_cast<std::uint32_t>(labels.size()), 1}, 2, labels));
}
std::string refusal(const std::vector<file_bytes>& elements) {
  const folder f;
  const std::string path = f.put("x.mat", mat_file_of(elements));
  return message_of<error>([&] { svhn{path}; });
}

}  // namespace

TEST_CASE("svhn: pixels in (channel, row, column) order, and 10 is the digit 0") {
  const folder f;
  const file_bytes labels{10, 1, 9, 3, 10};
  const svhn data(f.put("x.mat", mat_file_of({x_of(5), y_of(labels)})));
  CHECK(data.size() == 5);
  CHECK(data.image() == extent{3, 32, 32});
  file_bytes out(3072);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(data.read(i, out) == labels[i] % 10);
    CHECK(data.label(i) == labels[i] % 10);
    std::size_t at = 0;
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (std::size_t row = 0; row < 32; ++row)
        for (std::size_t column = 0; column < 32; ++column)
          REQUIRE(out[at++] == pixel(i, channel, row, column));
  }
  CHECK_THROWS_AS(data.read(5, out), usage_error);
  CHECK(dataset_laws(data) == "");
  CHECK(split(data, 0.2, 1).validation.size() == 1);
}

TEST_CASE("svhn: labels may be doubles, and the arrays in any order") {
  const folder f;
  const file_bytes y = mat_compressed(mat_matrix("y", {3, 1}, 9, doubles({10, 2, 7})));
  const svhn data(f.put("x.mat", mat_file_of({y, x_of(3)})));
  CHECK(data.label(0) == 0);
  CHECK(data.label(2) == 7);
}

TEST_CASE("svhn: what SciPy's savemat writes by default: not compressed, and labels in a row") {
  const folder f;
  // The types of uint8, int8, uint16, int16, int32, uint32, float64, int64 and uint64.
  for (const auto& [type, bytes] :
       {std::pair{2u, 1}, {1u, 1}, {4u, 2}, {3u, 2}, {5u, 4}, {6u, 4}, {12u, 8}, {13u, 8}}) {
    file_bytes labels;
    for (const int label : {1, 10}) append_number(labels, static_cast<std::uint64_t>(label), bytes);
    const file_bytes y = mat_matrix("y", {1, 2}, type, labels);
    const svhn data(
        f.put("x.mat", mat_file_of({mat_matrix("X", {32, 32, 3, 2}, 2, pixels(2)), y})));
    CHECK(data.label(0) == 1);
    CHECK(data.label(1) == 0);
    file_bytes out(3072);
    data.read(1, out);
    CHECK(out[3071] == pixel(1, 2, 31, 31));
  }
  file_bytes large;
  append_number(large, (std::uint64_t{1} << 32) + 1, 8);
  CHECK(contains_all(refusal({x_of(1), mat_matrix("y", {1, 1}, 12, large)}),
                     {" of image 0, expected 1"}));
}

TEST_CASE("svhn: other arrays and labels are refused") {
  CHECK(contains_all(refusal({x_of(3, {32, 3, 32, 3}), y_of({1, 2, 3})}), {"X is not 32 x 32"}));
  CHECK(contains_all(refusal({x_of(3, {32, 32, 3, 4}), y_of({1, 2, 3})}), {"X is not 32 x 32"}));
  CHECK(contains_all(refusal({x_of(0), y_of({})}), {"X is not 32 x 32"}));
  CHECK(contains_all(refusal({x_of(3), y_of({1, 2})}), {"y is not 3 x 1"}));
  CHECK(contains_all(refusal({x_of(3), mat_compressed(mat_matrix("y", {1, 1}, 2, {1, 2, 3}))}),
                     {"y is not 3 x 1"}));
  CHECK(contains_all(refusal({x_of(1)}), {"no variable y"}));
  CHECK(contains_all(refusal({x_of(2), y_of({1, 0})}), {"label 0 of image 1"}));
  CHECK(contains_all(refusal({x_of(2), y_of({11, 1})}), {"label 11 of image 0"}));
  for (const double wrong : {1.5, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()})
    CHECK(contains_all(
        refusal({x_of(1), mat_compressed(mat_matrix("y", {1, 1}, 9, doubles({wrong})))}),
        {" of image 0, expected 1 to 10"}));
}

#else

#include "tests/support/skip.hpp"

TEST_CASE("svhn") { support::skip("built without zlib"); }

#endif
