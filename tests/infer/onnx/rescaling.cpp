// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/infer/onnx/rescaling.hpp>
#include <cordee/ops/requantize.hpp>

#include "tests/infer/onnx_interpreter.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace cordee::detail::infer;

namespace {

constexpr onnx_limits limits{-(1 << 24), 1 << 24};
std::int64_t limited(std::int64_t y) { return std::clamp(y, limits.least, limits.most); }

/// The graph's y of x (channels, numbers), a row for each channel.
std::vector<std::int64_t> graph_of(const std::vector<onnx_rescaling>& channels,
                                   const std::vector<std::int64_t>& x) {
  onnx_graph graph;
  const std::size_t count = channels.size();
  const auto each = static_cast<int>(x.size() / count);
  graph.add_input<std::int32_t>("x", {static_cast<int>(count), 1, each});
  const std::vector<std::size_t> shape{count, 1, 1};
  const std::string y = add_rescaling(graph, "layer", "y", "x", channels, shape, limits);
  graph.add_output<std::int32_t>(y, {static_cast<int>(count), 1, each});
  const onnx_reader::model read(graph.encoded());
  onnx_reader::integer_tensor in(6, {1, static_cast<std::int64_t>(count), 1, each});
  in.all = x;
  auto all = onnx_reader::interpreter(read).run(in).all;
  CHECK(onnx_reader::interpreter(read, true).run(in).all == all);
  for (std::int64_t& v : all) v = std::clamp(v, limits.least, limits.most);
  return all;
}

}  // namespace

TEST_CASE("onnx_rescaling: every factor, with ties and extremes, is rescaled's integer") {
  random_sequence draw(1, purpose::test, 0, 0);
  for (const std::int64_t limit : {std::int64_t{1} << 23, (std::int64_t{1} << 30) - 64}) {
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
          expected.push_back(limited(ops::rescaled(v, f, added) + offset));
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
          expected.push_back(limited(((k * v + b) >> shift) - 9));
        }
      }
  CHECK(graph_of(channels, x) == expected);
}

TEST_CASE("onnx_rescaling: results that 32 bits do not hold are refused by the layer's name") {
  const auto refused = [](const onnx_rescaling& c) {
    onnx_graph graph;
    CHECK_THROWS_WITH_AS((void)add_rescaling(graph, "layer1.0.conv1", "y", "x", {&c, 1}, {}),
                         doctest::Contains("write_onnx: layer \"layer1.0.conv1\": its"), error);
  };
  refused({0, 1 << 28, 4, 0, 0});
  refused({-(1 << 28), 0, 4, 0, 0});
  refused({-(std::int64_t{1} << 30), std::int64_t{1} << 30, 1, 0, 9});  // too long an x
  onnx_graph graph;
  const onnx_rescaling held{-(1 << 28), (1 << 28) - 1, 4, 3, 0};
  CHECK(add_rescaling(graph, "l", "y", "x", {&held, 1}, {}, onnx_limits{-9, 9}) != "");
}
