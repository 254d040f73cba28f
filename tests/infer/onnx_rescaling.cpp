// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/infer/onnx_rescaling.hpp>
#include <cordee/ops/requantize.hpp>

#include "tests/infer/onnx_interpreter.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace cordee::detail::infer;

namespace {

/// The graph's y of x (channels, numbers), a row for each channel.
std::vector<std::int64_t> graph_of(const std::vector<onnx_rescaling>& channels,
                                   const std::vector<std::int64_t>& x) {
  onnx_graph graph;
  const std::size_t count = channels.size();
  const auto each = static_cast<int>(x.size() / count);
  graph.add_input<std::int64_t>("x", {static_cast<int>(count), 1, each});
  const std::vector<std::size_t> shape{count, 1, 1};
  const std::string y = add_rescaling(graph, "layer", "y", "x", channels, shape);
  graph.add_output<std::int64_t>(y, {static_cast<int>(count), 1, each});
  const onnx_reader::model read(graph.encoded());
  onnx_reader::integer_tensor in(7, {1, static_cast<std::int64_t>(count), 1, each});
  in.all = x;
  return onnx_reader::interpreter(read).run(in).all;
}

}  // namespace

TEST_CASE("onnx_rescaling: every factor, with ties and extremes, is rescaled's integer") {
  random_sequence draw(1, purpose::test, 0, 0);
  for (const std::int64_t limit : {std::int64_t{1} << 23, std::int64_t{1} << 30}) {
    std::vector<onnx_rescaling> channels;
    std::vector<std::int64_t> x, expected;
    for (int shift = -31; shift <= 31; ++shift)
      for (const std::int32_t m : {std::int32_t{1} << 30, std::numeric_limits<std::int32_t>::max(),
                                   (1 << 30) + static_cast<std::int32_t>(draw.below(1 << 30))}) {
        const ops::fixed_point f{m, shift};
        const std::int64_t room = std::int64_t{1} << 61,
                           added = shift % 3 == 0   ? 0
                                   : shift % 3 == 1 ? room
                                                    : -room,
                           offset = shift + 100;
        channels.push_back(onnx_rescaling::of(f, -limit, limit, added, offset));
        const std::int64_t half = shift > 0 || shift < -22 ? 1 : std::int64_t{1} << (-shift);
        for (const std::int64_t v :
             {-limit, -half, -half - 1, -half + 1, std::int64_t{-1}, std::int64_t{0},
              std::int64_t{1}, half, half - 1, half + 1, limit,
              static_cast<std::int64_t>(draw.below(1 << 23)) - (1 << 22)}) {
          x.push_back(v);
          expected.push_back(ops::rescaled(v, f, added) + offset);
        }
      }
    CHECK(graph_of(channels, x) == expected);
  }
}

TEST_CASE("onnx_rescaling: batch norms of either sign floor") {
  std::vector<onnx_rescaling> channels;
  std::vector<std::int64_t> x, expected;
  for (const std::int64_t k : {-3, 3, 0, 1 << 30, -(1 << 30)})
    for (const std::int64_t b : {std::int64_t{-7}, std::int64_t{5}, std::int64_t{1} << 60})
      for (const int shift : {0, 1, 5, 60}) {
        channels.push_back({-(1 << 17), 1 << 17, k, b, shift, -9});
        for (const std::int64_t v : {-(1 << 17), -3, -2, -1, 0, 1, 2, 3, 1 << 17}) {
          x.push_back(v);
          expected.push_back(((k * v + b) >> shift) - 9);
        }
      }
  CHECK(graph_of(channels, x) == expected);
}

TEST_CASE("onnx_rescaling: what 64 bits do not hold is refused by the layer's name") {
  const std::int64_t large = std::int64_t{1} << 62;
  const auto refused = [](const onnx_rescaling& c) {
    onnx_graph graph;
    CHECK_FALSE(c.unsigned_bias().has_value());
    CHECK_THROWS_WITH_AS((void)add_rescaling(graph, "layer1.0.conv1", "y", "x", {&c, 1}, {}),
                         doctest::Contains("write_onnx: layer \"layer1.0.conv1\": ONNX's"), error);
  };
  refused({-large, large, 2, 0, 0});       // a product
  refused({0, large, 1, large, 0});        // a sum
  refused({-large, 0, 1, -large - 1, 0});  // its negative
  refused({-large, large, 1, 0, 0});       // with what makes it positive
  const onnx_rescaling last_one_held{-large, large - 1, 1, 0, 0};
  CHECK(last_one_held.unsigned_bias() == large);
  CHECK(onnx_rescaling{5, 9, 3, 1, 2}.unsigned_bias() == 0);
  CHECK(onnx_rescaling{-5, 9, 3, 0, 2}.unsigned_bias() == 4);
}
