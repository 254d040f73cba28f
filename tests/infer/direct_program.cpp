// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using support::random_plane;

namespace {

template <class N, int V>
bool equals_definition(std::vector<float> plane, std::size_t samples, int workers) {
  const auto list = list_layers(static_cast<const N*>(nullptr));
  const integer_program program =
      program_builder(list, plane).build(N::input, {{0.4F, 0.5F, 0.3F, 0}, {4, 3, 5, 1}});
  random_sequence draw(7, purpose::test, 0, 0);
  std::vector<std::uint8_t> images(samples * N::input.size());
  for (auto& byte : images) byte = static_cast<std::uint8_t>(draw.below(256));
  std::vector<std::int32_t> logits(samples * N::classes), expected(logits.size());
  direct_program<V> direct(program, cpu(workers));
  direct.run(samples, images.data(), logits.data());
  const memory_plan plan(program, plain_sizes(program));
  std::vector<std::byte> memory(plan.size);
  for (std::size_t n = 0; n < samples; ++n)
    run_reference<integer_reference<>>(program, plan, memory.data(),
                                       images.data() + n * N::input.size(),
                                       expected.data() + n * N::classes);
  return logits == expected;
}

constexpr resnet_options with_a{.image = {3, 10, 9}, .classes = 4, .zero_gamma = false};
constexpr resnet_options with_b{
    .image = {1, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false};
constexpr resnet_options large{.image = {3, 64, 64}, .classes = 3, .zero_gamma = false};
constexpr resnet_options bottlenecks{
    .image = {1, 16, 16}, .classes = 35, .zero_gamma = false, .stem = stem::small};

/// Few filters, and filters that do not fill a block; a max pool of bytes.
using odd = network<sequential<convolution<3, 5>, relu, max_pool<2, 2, 0>, convolution<21, 3, 2>,
                               batch_norm<relu>, convolution<5, 1>, global_average_pool, linear<2>>,
                    int8, cpu, direct, extent{2, 11, 13}, 2>;

constexpr int V = detail::ops::lanes<float>;

}  // namespace

TEST_CASE(
    "direct_program: the same integers as the definitions, any number of samples and workers") {
  using a = resnet<8, int8, cpu, with_a>;
  using b = resnet<14, int8, cpu, with_b>;
  for (const std::size_t samples : {0u, 1u, 4u, 5u, 9u})
    for (const int workers : {1, 3})
      CHECK(equals_definition<a, V>(random_plane<a>(1), samples, workers));
  CHECK(equals_definition<b, V>(random_plane<b>(2), 3, 2));
  CHECK(equals_definition<a, 4>(random_plane<a>(3), 2, 1));
  CHECK(equals_definition<b, 8>(random_plane<b>(4), 2, 1));
  CHECK(equals_definition<odd, V>(random_plane<odd>(5), 5, 1));
}

TEST_CASE("direct_program: the same integers as the definitions, ImageNet's form") {
  using basic = resnet<18, int8, cpu, large>;
  using deep = resnet<50, int8, cpu, bottlenecks>;
  CHECK(equals_definition<basic, V>(random_plane<basic>(5), 1, 1));
  CHECK(equals_definition<deep, V>(random_plane<deep>(6), 1, 1));
}

TEST_CASE("direct_program: factors that do not fit 32 bits are computed in 64") {
  using a = resnet<8, int8, cpu, with_a>;
  auto plane = random_plane<a>(7);
  for (const char* name : {"layer1.0.conv2.input_max", "layer2.0.conv1.input_max"})
    plane[support::segment_named<a>(name).offset] = 1e-20F;
  CHECK(equals_definition<a, V>(plane, 2, 1));
}
