// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/network.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/quadratic_model.hpp>

using namespace cordee;
using namespace cordee::detail::core;

static_assert(Model<quadratic_model<fp32>> && Model<quadratic_model<fp64>>);

namespace {

constexpr std::size_t plane_size = quadratic_table.back().offset + detail::core::segment_alignment;

// Planes of weights and gradients, and the order in which segments became ready.
struct pass {
  std::vector<double> weights = std::vector<double>(plane_size);
  std::vector<double> grads = std::vector<double>(plane_size);
  std::vector<std::size_t> ready{};

  void run(quadratic_model<fp64>& model, int count = 1, std::int64_t global = 1,
           phase p = phase::train) {
    batch<cpu> b;
    b.count = count;
    b.global_samples = global;
    auto packed = model.make_packed_parameters();
    model.pack_parameters(span(weights), packed, cpu::stream{});
    model.forward(packed, span(weights), b, p, cpu::stream{});
    ready.clear();
    model.backward(
        packed, span(grads), write_mode::add, [&](std::size_t k) { ready.push_back(k); },
        cpu::stream{});
  }
  static span_on<double, cpu> span(std::vector<double>& x) { return {x.data(), x.size()}; }
};

}  // namespace

TEST_CASE("quadratic_model: the table is aligned and has every kind and the edge cases of sizes") {
  std::size_t expected = 0;
  unsigned present_kinds = 0;
  for (const segment& s : quadratic_table) {
    CHECK(s.offset == expected);
    expected += detail::core::align_up(s.size);
    present_kinds |= static_cast<unsigned>(s.kind);
  }
  CHECK(present_kinds == (trainable | kind::statistic).bits);
  CHECK(detail::core::count_trainable(quadratic_table) == quadratic_table.size() - 1);
  const auto has = [](std::size_t size) {
    for (const segment& s : quadratic_table)
      if (s.size == size && s.kind == kind::weight) return true;
    return false;
  };
  CHECK((has(0) && has(1) && has(33'003)));
}

TEST_CASE("quadratic_model: the gradient is w - c, and segments become ready from the last one") {
  quadratic_model<fp64> model;
  pass at;
  for (std::size_t i = 0; i < plane_size; ++i) at.weights[i] = 3;
  at.run(model);
  for (const segment& s : quadratic_table)
    for (std::size_t i = s.offset; i < s.offset + detail::core::align_up(s.size); ++i)
      REQUIRE(at.grads[i] ==
              (i < s.end() && s.kind != kind::statistic ? 3 - static_cast<double>(i % 7) / 8 : 0));
  CHECK(at.ready == std::vector<std::size_t>{6, 5, 4, 3, 2, 1, 0});
}

TEST_CASE(
    "quadratic_model: gradients accumulate, weighted by the share of the batch in the update") {
  quadratic_model<fp64> model;
  pass at;
  at.weights[0] = 1;  // where c is 0
  at.run(model, 3, 8);
  CHECK(at.grads[0] == 3.0 / 8);
  CHECK(model.read_metrics(cpu::stream{}).count == 3);
  at.run(model, 5, 8);
  CHECK(at.grads[0] == 1);
  at.run(model, 0, 0);  // a rank without samples adds nothing
  CHECK(at.grads[0] == 1);
}

TEST_CASE(
    "quadratic_model: the statistic counts training passes, a step of 1 leads to the minimum") {
  quadratic_model<fp64> model;
  pass at;
  model.initialize(pass::span(at.weights), 5);
  at.run(model);
  at.run(model, 1, 1, phase::evaluate);
  at.run(model);
  const std::size_t statistic = quadratic_table.back().offset;
  CHECK(at.weights[statistic] == 2);
  for (std::size_t i = 0; i < statistic; ++i) at.weights[i] -= at.grads[i] / 3;  // of three passes
  at.grads.assign(plane_size, 0);
  at.run(model);
  for (const double g : at.grads) REQUIRE(std::abs(g) < 1e-14);
}

TEST_CASE(
    "quadratic_model: initial weights are a function of the seed, zero in one segment and in "
    "padding") {
  const quadratic_model<fp64> model;
  pass a, again, other;
  model.initialize(pass::span(a.weights), 5);
  model.initialize(pass::span(again.weights), 5);
  model.initialize(pass::span(other.weights), 6);
  CHECK(a.weights == again.weights);
  CHECK(a.weights != other.weights);
  for (const segment& s : quadratic_table)
    for (std::size_t i = s.offset; i < s.offset + detail::core::align_up(s.size); ++i) {
      const bool zero = i >= s.end() || s.name == "zero" || s.kind == kind::statistic;
      REQUIRE((a.weights[i] == 0) == zero);
    }
}

TEST_CASE("quadratic_model: inject_nan affects one number") {
  quadratic_model<fp64> model;
  model.inject_nan = true;
  pass at;
  at.run(model);
  int nans = 0;
  for (const double g : at.grads) nans += std::isnan(g) ? 1 : 0;
  CHECK(nans == 1);
  CHECK(std::isnan(at.grads[quadratic_table[4].offset]));
}
