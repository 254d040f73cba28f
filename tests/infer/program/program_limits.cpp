// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/program/program_limits.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/int8/byte_sample.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A convolution with a window of 181 x 181, which has few weights and many products; the mean, a
/// classifier.
integer_program of_large_window(int side) {
  integer_program p{
      .image = {1, side, side}, .table = std::vector<std::uint8_t>(256, 1), .steps = {}};
  integer_convolution c;
  c.problem =
      convolution_problem{.in = p.image, .filters = 1, .window = 181, .stride = 1, .padding = 90};
  c.weights.assign(181 * 181, 1);
  c.bias = {0};
  c.factors = {{1 << 30, -10}};
  c.low = -100;
  c.high = 100;
  p.steps.push_back({.layer = c, .name = "conv1", .bytes = 4});
  p.steps.push_back({.layer = mean_problem{c.problem.out()}, .name = {}, .input = 0, .bytes = 4});
  p.steps.push_back({.layer = integer_classifier{.features = 1,
                                                 .classes = 1,
                                                 .weights = {1},
                                                 .bias = {0},
                                                 .shift = 0,
                                                 .factors = {{1 << 30, 0}}},
                     .name = "fc",
                     .input = 1,
                     .bytes = 4});
  return p;
}

template <extent Image>
std::string refusal_of_making() {
  using model =
      network<sequential<convolution<16, 3, 1>, batch_norm<relu>, global_average_pool, linear<2>>,
              int8, cpu, direct, Image, 2>;
  return message_of<error>(
      [] { static_cast<void>(integer_network::from<model>(random_plane<model>(1), {}, cpu(1))); });
}

}  // namespace

TEST_CASE("operations: products, comparisons, and numbers that are read and written") {
  const std::int64_t pixels = 9 * 9;
  CHECK(operations(of_large_window(9)) == pixels  // the image
                                              + pixels + pixels +
                                              pixels * 181 * 181  // the convolution
                                              + pixels + 1        // the mean
                                              + 1 + 1 + 1);       // the classifier
  integer_program p;
  p.image = {2, 4, 4};
  p.steps.push_back({.layer = detail::ops::max_pool_problem{
                         .in = p.image, .window = 2, .stride = 2, .padding = 0}});
  CHECK(operations(p) == 32 + 32 + 8 + 8 * 4);
}

TEST_CASE("memory_of_image: blocks of 16 channels, with copies in bytes of 32-bit numbers") {
  integer_program p;
  p.image = {3, 8, 8};
  p.steps.push_back({.layer = mean_problem{{17, 4, 4}}, .name = {}, .bytes = 4});
  CHECK(memory_of_image(p) == 3 * 64 + (32 * 5 + 63) / 64 * 64);
}

TEST_CASE("memory_of_copies: not less than engine direct's, but for the end of a row of tiles") {
  using namespace cordee::detail::ops;
  for (const int channels : {1, 3, 5, 16, 17, 40})
    for (const int side : {1, 2, 5, 13})
      for (const int window : {1, 2, 3, 6})
        for (const int stride : {1, 2, 3})
          for (const int padding : {0, window / 2, window - 1}) {
            const convolution_problem p{{channels, side, side + 2}, 4, window, stride, padding};
            if (side + 2 * padding < window) continue;
            CAPTURE(describe(p.in));
            CAPTURE(window);
            CAPTURE(stride);
            CAPTURE(padding);
            const auto check = [&]<int V>() {
              const byte_sample<V, std::uint16_t, 6> shorts(p);
              const byte_sample<V> bytes(p);
              const std::size_t tile =
                  shorts.in_panels() ? 5 * 2 * sample_size({channels, 1, 1}, V) : 0;
              CHECK(2 * shorts.size() + bytes.size() <= memory_of_copies(p) + tile);
            };
            check.operator()<8>();
            check.operator()<16>();
          }
}

TEST_CASE(
    "program_limits: a worker has four images and the largest padded input of a convolution") {
  const auto of_window = [](int window, int padding) {
    integer_program p{.image = {1, 1, 16000}, .table = {}, .steps = {}};
    const auto add = [&](const convolution_problem& problem) {
      integer_convolution c;
      c.problem = problem;
      p.steps.push_back(
          {.layer = c, .name = "conv", .input = static_cast<int>(p.steps.size()) - 1, .bytes = 4});
    };
    add({p.image, 916});
    add({{916, 1, 16000}, 916});
    add({{916, 1, 16000}, 1, window, 1, padding});
    return p;
  };
  const std::size_t images = 4 * std::size_t{(1 + 2 * 5 * 928) * 16000};  // the image, two outputs
  CHECK(memory_of_worker(of_window(1, 0)) == images + std::size_t{928 * 16000} * 3);
  CHECK(exceeded_limit(of_window(5, 2)) == std::nullopt);
  CHECK(memory_of_worker(of_window(6, 5)) == images + std::size_t{928 * 11 * 16010} * 3);
  CHECK(exceeded_limit(of_window(6, 5)) ==
        "a worker needs 1084274240 bytes of memory, more than 1073741824");
}

TEST_CASE("program_limits: ten times a ResNet-50 of usual images is within") {
  using large = resnet<50, int8, cpu>;
  const layer_list list = list_layers(static_cast<const large*>(nullptr));
  std::int64_t products = 0;
  for (const listed_layer& l : list.layers())
    if (const auto* c = l.as<convolution_problem>()) products += c->macs();
  CHECK(products > 4'000'000'000);
  CHECK(10 * products < program_limits::operations);
}

TEST_CASE("program_limits: a file of 34 KB that would keep a processor busy is refused at once") {
  const folder f;
  save_program(f.file("net"), of_large_window(4096), 0.5);
  CHECK(f.get("net").size() < 40'000);
  const std::string message =
      message_of<error>([&] { static_cast<void>(program_reader(f.file("net")).read()); });
  CHECK_MESSAGE(message.find("an image takes 549705482244") != std::string::npos, message);
  CHECK_MESSAGE(message.find(" operations, more than 68719476736") != std::string::npos, message);
  save_program(f.file("net"), of_large_window(1024), 0.5);  // 2^35
  CHECK(message_of<error>([&] { static_cast<void>(program_reader(f.file("net")).read()); }) == "");
}

TEST_CASE("program_limits: what load refuses is not made either") {
  CHECK(refusal_of_making<extent{1, 16, 16}>() == "");
  CHECK(refusal_of_making<extent{1, 2048, 2048}>() ==
        "integer_network: step 0, \"conv1\": its output 16x2048x2048 is too large or empty");
  CHECK(refusal_of_making<extent{1, 20000, 1}>() ==
        "integer_network: its images are 1x20000x1; 1 to 4 channels are possible");
}
