// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/dropout.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/resnet.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

constexpr extent shape{3, 4, 4};
// Logits are what two dropouts leave of the means of three channels.
struct no_classifier : sequential<global_average_pool, dropout, dropout> {};
using bare = network<no_classifier, fp64, cpu, reference, shape, 3>;
using with_classifier =
    network<sequential<convolution<8, 3>, global_average_pool, dropout, linear<5>>, fp64, cpu,
            reference, shape, 5>;

template <class Net>
std::vector<double> logits_of(network_fixture<Net>& b, const batch<cpu>& part,
                              phase p = phase::train) {
  b.forward(part, p);
  const auto logits = b.net.logits();
  return {logits.data, logits.data + logits.size};
}

}  // namespace

TEST_CASE("dropout: the gradient is the derivative") {
  network_fixture<with_classifier> b(4);
  b.net.dropout_rate = 0.4;
  b.check_gradients();
  network_fixture<
      resnet<8, fp64, cpu, resnet_options{.image = {1, 8, 8}, .dropout = true}, reference>>
      deep(3);
  deep.net.dropout_rate = 0.5;
  deep.check_gradients(1);
}

TEST_CASE("dropout: kept numbers are divided by 1 - rate, evaluation keeps all") {
  network_fixture<bare> plain(40), dropped(40);
  dropped.net.dropout_rate = 0.25;
  const auto whole = plain.samples(0, 40, 40);
  const std::vector<double> x = logits_of(plain, whole), y = logits_of(dropped, whole);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (y[i] == 0) continue;
    ++kept;
    CHECK(y[i] == x[i] / 0.75 / 0.75);
  }
  // Two layers keep a number by 9/16; 120 numbers: four standard deviations are 22.
  CHECK(std::abs(static_cast<double>(kept) - 67.5) < 22);
  CHECK(logits_of(dropped, whole, phase::evaluate) == x);
  plain.net.dropout_rate = 0;
  CHECK(logits_of(plain, whole) == x);
}

TEST_CASE("dropout: a number's fate depends on step, seed and the sample's place in the update") {
  network_fixture<with_classifier> b(6);
  b.net.dropout_rate = 0.5;
  const auto whole = b.samples(0, 6, 6);
  const std::vector<double> all = logits_of(b, whole);
  std::vector<double> in_parts;
  for (const std::size_t first : {0u, 1u, 4u}) {
    auto part = b.samples(first, first == 0 ? 1 : first == 1 ? 3 : 2, 6);
    part.first_sample = static_cast<std::int64_t>(first);
    const auto logits = logits_of(b, part);
    in_parts.insert(in_parts.end(), logits.begin(), logits.end());
  }
  CHECK(in_parts == all);
  auto seeded = whole, later = whole;
  seeded.seed = 1;
  const step_info info{.step = 1};
  later.info = {&info, 1};
  CHECK(logits_of(b, seeded) != all);
  CHECK(logits_of(b, later) != all);
  CHECK(logits_of(b, whole) == all);
}

TEST_CASE("dropout: a rate out of range or without a layer is refused") {
  network_fixture<with_classifier> b(1);
  b.net.dropout_rate = 1;
  CHECK_THROWS_AS(b.net.check(), usage_error);
  b.net.dropout_rate = -0.1;
  CHECK_THROWS_AS(b.net.check(), usage_error);
  b.net.dropout_rate = 0.9;
  CHECK_NOTHROW(b.net.check());
  resnet<8, fp64, cpu, resnet_options{.image = {1, 8, 8}}> without;
  without.dropout_rate = 0.1;
  CHECK_THROWS_WITH_AS(without.check(), doctest::Contains("needs a dropout layer"), usage_error);
}
