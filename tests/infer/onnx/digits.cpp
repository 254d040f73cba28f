// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/onnx/digits.hpp>

#include "tests/infer/onnx_interpreter.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

constexpr std::int64_t largest = (std::int64_t{1} << 31) - 65;

/// What `make` adds of x, by exact operators and by those of floats.
template <class Make>
std::vector<std::int64_t> values_of(const std::vector<std::int64_t>& x, const Make& make) {
  onnx_graph graph;
  const auto count = static_cast<int>(x.size());
  graph.add_input<std::int32_t>("x", {count});
  onnx_arithmetic to(graph, "y", {});
  graph.add_output<std::int32_t>(make(to), {count});
  const onnx_reader::model read(graph.encoded());
  onnx_reader::integer_tensor in(6, {1, count});
  in.all = x;
  const auto all = onnx_reader::interpreter(read).run(in).all;
  CHECK(onnx_reader::interpreter(read, true).run(in).all == all);
  return all;
}

const std::vector<std::int64_t> numbers{
    0, 1, 63, 64, 2047, 2048, 4095, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, (1 << 30) - 1, largest};

}  // namespace

TEST_CASE("onnx_digits: quotients that a float does not hold are corrected") {
  for (const std::int32_t d : {64, 81, 2048, 3001}) {
    std::vector<std::int64_t> expected;
    for (const std::int64_t x : numbers) expected.push_back(x / d);
    CHECK(values_of(numbers, [&](onnx_arithmetic& to) { return to.quotient("x", largest, d); }) ==
          expected);
  }
}

TEST_CASE("onnx_digits: digits, put together again, are the number") {
  for (const int bits : {8, onnx_digit_bits})
    CHECK(values_of(numbers, [&](onnx_arithmetic& to) {
            const onnx_digits d = to.split("x", largest, bits);
            CHECK(d.last < 1 << bits);
            return to.cast<std::int32_t>("whole", to.carried(d.digits, bits, {0}, 0));
          }) == numbers);
}
