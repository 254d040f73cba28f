// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/nn/resnet.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/wide_blocks.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

/// Counts of the table alone.
template <int Depth, shortcut S>
constexpr parameter_registry::totals counts =
    parameter_table<resnet_layers<Depth, resnet_options{.shortcut = S}>, extent{3, 32, 32}>::totals;

template <int Depth, shortcut S>
constexpr bool has(int convolutions, std::size_t tensors, std::int64_t parameters) {
  constexpr auto c = counts<Depth, S>;
  return c.convolutions == convolutions && c.trainable == tensors && c.parameters == parameters &&
         c.statistics == 2 * static_cast<std::size_t>(convolutions);
}
/// Whether the multiplications are the published number, which is rounded.
template <int Depth, shortcut S>
constexpr bool has_macs(std::int64_t macs, std::int64_t rounding) {
  const std::int64_t difference = counts<Depth, S>.macs - macs;
  return -rounding <= difference && difference <= rounding;
}

// He et al., 2016, and torchvision
static_assert(has<8, shortcut::a>(7, 23, 75'290) && has_macs<8, shortcut::a>(12'239'488, 0));
static_assert(has<20, shortcut::a>(19, 59, 269'722) &&
              has_macs<20, shortcut::a>(40'550'000, 5'000));
static_assert(has<32, shortcut::a>(31, 95, 464'154) &&
              has_macs<32, shortcut::a>(68'860'000, 5'000));
static_assert(has<44, shortcut::a>(43, 131, 658'586) &&
              has_macs<44, shortcut::a>(97'170'000, 5'000));
static_assert(has<56, shortcut::a>(55, 167, 853'018) &&
              has_macs<56, shortcut::a>(125'490'000, 5'000));
static_assert(has<110, shortcut::a>(109, 329, 1'727'962) &&
              has_macs<110, shortcut::a>(252'890'000, 5'000));
static_assert(has<20, shortcut::b>(21, 65, 272'474) &&
              has_macs<20, shortcut::b>(40'810'000, 5'000));
static_assert(has<56, shortcut::b>(57, 173, 855'770) &&
              has_macs<56, shortcut::b>(125'750'000, 5'000));

template <resnet_options S, class P = fp64, class Engine = reference>
using net8 = resnet<8, P, cpu, S, Engine>;

}  // namespace

TEST_CASE("resnet: the whole gradient of ResNet-8 is the derivative of its loss") {
  SUBCASE("option A") {
    network_fixture<net8<resnet_options{.image = {1, 8, 8}}>>(4).check_gradients();
  }
  SUBCASE("option B") {
    network_fixture<net8<resnet_options{.image = {1, 8, 8}, .shortcut = shortcut::b}>>(4)
        .check_gradients();
  }
  SUBCASE("ghost batches") {
    network_fixture<
        net8<resnet_options{.image = {1, 8, 8}, .shortcut = shortcut::b, .ghost_batch = 3}>>(5)
        .check_gradients();
  }
}

TEST_CASE("resnet: label smoothing is part of the gradient") {
  network_fixture<net8<resnet_options{.image = {2, 8, 8}}>> b(3);
  b.net.loss.label_smoothing = 0.1;
  b.check_gradients(2);
}

TEST_CASE_TEMPLATE("resnet: engine direct computes what engine reference computes", P, fp64, fp32) {
  constexpr resnet_options s{.image = {3, 9, 8},
                             .shortcut = shortcut::b};  // an odd height on purpose
  network_fixture<net8<s, P, reference>> expected(5);
  network_fixture<net8<s, P, direct>> actual(5, 1, 2);
  check_same_step(actual, expected, std::is_same_v<P, fp64> ? 1e-11 : 2e-4);
}

TEST_CASE("resnet: activations of bf16 may have blocks of two registers") {
  constexpr resnet_options s{.image = {3, 9, 9}};  // an odd number of pixels
  network_fixture<net8<s, fp32, reference>> expected(5);
  network_fixture<net8<s, bf16, reference>> single(5);
  network_fixture<net8<s, bf16, support::wide_blocks>> actual(5, 1, 2);
  check_same_step(single, expected, 0.5);
  check_same_step(actual, expected, 0.5);
  check_same_step(actual, single, 0.05);
}

TEST_CASE("resnet: gradient descent on one batch reduces its loss") {
  network_fixture<resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}>> b(16);
  b.net.initialize(b.weights(), 1);
  const double before = b.mean_loss();
  for (int step = 0; step < 100; ++step) {
    b.forward();
    b.backward();
    const std::size_t end = b.net.segments()[b.net.tensors()].offset;
    for (std::size_t i = 0; i < end; ++i) b.weights()[i] -= 0.2f * b.gradients()[i];
  }
  CHECK(b.mean_loss() < before / 2);
}
