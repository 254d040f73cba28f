// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the integer form decides before any image is seen: which activations are bytes, where they
// are clipped, how fine those of 32 bits and the logits are; and what has no such form.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using support::random_plane, support::segment_named;

namespace {

constexpr normalization pixels{};

template <class N>
struct built {
  std::vector<float> plane;
  layer_list list = list_layers(static_cast<const N*>(nullptr));
  program_builder builder{list, plane};
  integer_program program = builder.build(N::input, pixels);

  explicit built(const std::vector<float>& weights) : plane(weights) {}
  explicit built(std::uint64_t seed) : built(random_plane<N>(seed)) {}

  [[nodiscard]] std::vector<int> bytes() const {
    std::vector<int> all;
    for (const integer_step& s : program.steps) all.push_back(s.bytes);
    return all;
  }
  [[nodiscard]] const integer_convolution& convolution_at(std::size_t i) const {
    return std::get<integer_convolution>(program.steps[i].layer);
  }
};
template <class Root, extent Input = extent{3, 8, 8}, int Classes = 2>
using net = network<Root, int8, cpu, direct, Input, Classes>;
using tail = sequential<global_average_pool, linear<2>>;
template <class Shortcut, class First = convolution<4>>
using block =
    residual<sequential<First, batch_norm<relu>, convolution<4>>, batch_norm<identity>, Shortcut>;

constexpr resnet_options with_a{.image = {3, 10, 9}, .classes = 4, .zero_gamma = false};
constexpr resnet_options with_b{
    .image = {3, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false};
using net_a = resnet<8, int8, cpu, with_a>;
using net_b = resnet<8, int8, cpu, with_b>;
using pooled = net<sequential<convolution<6>, relu, max_pool<2, 2, 0>, convolution<7>,
                              batch_norm<relu>, convolution<5, 1>, tail>>;
using projected = net<
    sequential<convolution<3>, batch_norm<relu>, block<projection<4, 1>>, convolution<5>, tail>>;

double value_of(fixed_point f) { return std::ldexp(f.multiplier, f.shift - 31); }

/// Returns how many convolutions have a ReLU.
template <class N>
std::ptrdiff_t check_limits(const built<N>& of) {
  std::ptrdiff_t with_relu = 0;
  for (std::size_t i = 0; i < of.program.steps.size(); ++i) {
    const auto* const c = std::get_if<integer_convolution>(&of.program.steps[i].layer);
    if (c == nullptr) continue;
    const bool is_byte = of.program.steps[i].bytes == 1, relu = of.list.layers()[i].relu;
    CHECK(c->high == (is_byte ? 255 : wide_limit));
    CHECK(c->low == (relu ? c->offset : is_byte ? 0 : -wide_limit));
    with_relu += relu ? 1 : 0;
  }
  return with_relu;
}

/// The largest output of a convolution that its filters allow, with the largest that is added.
double largest_output(const integer_convolution& c) {
  double largest = 0;
  const std::size_t each = c.weights.size() / c.bias.size();
  for (std::size_t k = 0; k < c.bias.size(); ++k) {
    double magnitude = 0;
    for (std::size_t i = 0; i < each; ++i)
      magnitude += std::abs(static_cast<double>(c.weights[k * each + i]));
    largest = std::max(largest, value_of(c.factors[k]) * 255 * magnitude +
                                    std::ldexp(std::abs(c.bias[k]), -c.bias_shift));
  }
  return largest + value_of(c.residual_factor) * wide_limit;
}

/// The largest sum of a classifier, after its shift.
double largest_sum(const integer_classifier& c) {
  double largest = 0;
  for (std::size_t k = 0; k < c.classes; ++k) {
    double sum = std::abs(static_cast<double>(c.bias[k]));
    for (std::size_t f = 0; f < c.features; ++f)
      sum += std::abs(static_cast<double>(c.weights[k * c.features + f])) * wide_limit;
    largest = std::max(largest, sum);
  }
  return std::ldexp(largest, -c.shift);
}

template <class Root, extent Input = extent{3, 6, 6}>
std::string message_of_building() {
  try {
    const built<net<Root, Input>> attempt(7);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("integer form: outputs are clipped at a ReLU's zero, and at the ends of their integers") {
  CHECK(check_limits(built<net_a>(1)) == 7);
  CHECK(check_limits(built<net_b>(2)) == 7);  // not those of two shortcuts
  CHECK(check_limits(built<pooled>(3)) == 2);
}

TEST_CASE("integer form: bytes between two convolutions, with a max pool too; 32 bits elsewhere") {
  const std::vector<int> of_a{4, 1, 4, 1, 4, 4, 1, 4, 4, 4, 4}, of_pooled{1, 1, 1, 4, 4, 4};
  CHECK(built<net_a>(1).bytes() == of_a);
  CHECK(built<pooled>(2).bytes() == of_pooled);
}

TEST_CASE("integer form: a shortcut's convolution has the step of the sum, whose bytes are read") {
  const built<net_b> of(3);
  std::size_t shortcuts = 0;
  for (const integer_step& s : of.program.steps)
    if (s.residual >= 0 &&
        of.program.steps[static_cast<std::size_t>(s.residual)].name.ends_with("downsample.0")) {
      const auto& c = std::get<integer_convolution>(s.layer);
      if (of.builder.step(static_cast<std::size_t>(&s - of.program.steps.data())) ==
          of.builder.step(static_cast<std::size_t>(s.residual))) {
        CHECK(c.residual_factor == fixed_point{1 << 30, 1});
        ++shortcuts;
      }
    }
  CHECK(shortcuts == 1);  // the other sum is read by the mean
  // A sum whose bytes one convolution reads: what is added keeps 32 bits.
  const built<projected> last(4);
  const std::vector<int> bytes = last.bytes();
  CHECK(std::count(bytes.begin(), bytes.end(), 1) == 2);
  for (const integer_step& s : last.program.steps)
    if (s.residual >= 0) {
      CHECK(s.bytes == 1);
      CHECK(last.program.steps[static_cast<std::size_t>(s.residual)].bytes == 4);
    }
}

TEST_CASE("integer form: the finest step before the mean with which no output is clipped") {
  const auto check = [](const auto& of) {
    const std::size_t steps = of.program.steps.size();
    const double largest = largest_output(of.convolution_at(steps - 3));
    CHECK(largest <= wide_limit + 1);  // the factors' and biases' roundings
    CHECK(largest >= wide_limit - 3);
  };
  check(built<net_a>(5));
  check(built<net_b>(6));
  auto plane = random_plane<net_b>(7);
  const segment& weights = segment_named<net_b>("layer3.0.conv2.weight");
  std::fill_n(plane.begin() + static_cast<std::ptrdiff_t>(weights.offset + weights.size / 2),
              weights.size / 2, 0.0F);  // the last filters have the smallest sums
  check(built<net_b>(plane));
}

TEST_CASE("integer form: a network of zeros has its biases as logits") {
  auto plane = random_plane<pooled>(8);
  for (const segment& s : pooled::segments())
    if (s.kind == kind::weight || s.kind == kind::scale || s.kind == kind::shift)
      std::fill_n(plane.begin() + static_cast<std::ptrdiff_t>(s.offset), s.size, 0.0F);
  const built<pooled> of(plane);
  for (const fixed_point f : of.convolution_at(3).factors) CHECK(std::abs(value_of(f)) < 1);
  CHECK(of.builder.step(3) == 1);
}

TEST_CASE("integer form: sums of a classifier fill 30 bits, and its factors are at most 1") {
  auto plane = random_plane<net_a>(9);
  const segment& w = segment_named<net_a>("fc.weight");
  const auto check = [](const std::vector<float>& weights) {
    const built<net_a> of(weights);
    const auto& c = std::get<integer_classifier>(of.program.steps.back().layer);
    CHECK(largest_sum(c) < 0x1p30);
    CHECK(largest_sum(c) >= 0x1p29);
    double most = 0;
    for (const fixed_point f : c.factors) most = std::max(most, value_of(f));
    CHECK(most == 1);
  };
  check(plane);
  for (std::size_t i = 0; i < w.size / 4; ++i) {
    plane[w.offset + i] *= 0.01F;  // the first class has the smallest step, the last few weights
    if (i > 0) plane[w.offset + w.size - i] = 0;
  }
  check(plane);
}

TEST_CASE("integer form: where a class's weights are negligible, its logit is the bias") {
  auto plane = random_plane<net_a>(10);
  const segment &w = segment_named<net_a>("fc.weight"), &b = segment_named<net_a>("fc.bias");
  for (std::size_t i = 0; i < w.size; ++i) plane[w.offset + i] *= 1e-25F;
  for (std::size_t k = 0; k < b.size; ++k) plane[b.offset + k] = 3 - 2 * static_cast<float>(k);
  const built<net_a> of(plane);
  const memory_plan plan(of.program, plain_sizes(of.program));
  std::vector<std::byte> memory(plan.size);
  const std::vector<std::uint8_t> image(net_a::input.size(), 200);
  std::vector<std::int32_t> logits(4);
  run_reference<integer_reference<>>(of.program, plan, memory.data(), image.data(), logits.data());
  for (std::size_t k = 0; k < 4; ++k) {
    const double bias = 3 - 2 * static_cast<double>(k), step = of.builder.logit_step();
    CHECK(std::abs(bias) > 1000 * step);
    CHECK(std::abs(logits[k] * step - bias) <= 1.5 * step + 0x1p-28 * std::abs(bias));
  }
}

TEST_CASE("integer form: too many products for 32 bits, and shortcuts of bytes, are refused") {
  const std::string overflow = "has no form in integers: its sums overflow 32 bits";
  using wide = sequential<convolution<3700, 1>, convolution<2, 3>, tail>;
  CHECK(message_of_building<wide, extent{1, 3, 3}>().find(overflow) != std::string::npos);
  using many = sequential<convolution<33001, 1>, tail>;
  CHECK(message_of_building<many, extent{1, 1, 1}>().find(overflow) != std::string::npos);
  using narrow = sequential<convolution<3600, 1>, convolution<2, 3>, tail>;
  CHECK(message_of_building<narrow, extent{1, 3, 3}>() == "none");
  using bytes_added =
      sequential<convolution<4>, batch_norm<relu>,
                 block<identity, sequential<max_pool<3, 1, 1>, convolution<4>>>, tail>;
  CHECK(message_of_building<bytes_added>().find("what its shortcut adds is rounded to bytes") !=
        std::string::npos);
  using unread = sequential<convolution<4>, subsample_pad<6>, convolution<2>, tail>;
  CHECK(message_of_building<unread>().find("a shortcut reads what no convolution reads") !=
        std::string::npos);
}
