// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/model.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/bowl.hpp>

using namespace cordee;

static_assert(Model<bowl<fp32>> && Model<bowl<fp64>>);

namespace {

constexpr std::size_t plane_size = bowl_table.back().offset + segment_alignment;

// One pass over a plane of weights, its gradient, and which segments were announced, in order.
struct pass {
  std::vector<double> weights = std::vector<double>(plane_size);
  std::vector<double> grads = std::vector<double>(plane_size);
  std::vector<std::size_t> announced{};

  void run(bowl<fp64>& model, int count = 1, std::int64_t global = 1, phase p = phase::train) {
    batch<cpu> b;
    b.count = count;
    b.global = global;
    auto image = model.make_image();
    model.publish(span(weights), image, cpu::stream{});
    model.forward(image, span(weights), b, p, cpu::stream{});
    announced.clear();
    model.backward(
        image, span(grads), into::add, [&](std::size_t k) { announced.push_back(k); },
        cpu::stream{});
  }
  static span_on<double, cpu> span(std::vector<double>& x) { return {x.data(), x.size()}; }
};

}  // namespace

TEST_CASE("bowl: its table is aligned, holds every kind, and what rules stumble over") {
  std::size_t expected = 0;
  unsigned kinds_seen = 0;
  for (const segment& s : bowl_table) {
    CHECK(s.offset == expected);
    expected += aligned(s.size);
    kinds_seen |= static_cast<unsigned>(s.what);
  }
  CHECK(kinds_seen == (trainable | kind::statistic).bits);
  CHECK(count_trainable(bowl_table) == bowl_table.size() - 1);
  const auto has = [](std::size_t size) {
    for (const segment& s : bowl_table)
      if (s.size == size && s.what == kind::weight) return true;
    return false;
  };
  CHECK((has(0) && has(1) && has(33'003)));
}

TEST_CASE(
    "bowl: the gradient is the way from the bottom, and all segments are said from the back") {
  bowl<fp64> model;
  pass at;
  for (std::size_t i = 0; i < plane_size; ++i) at.weights[i] = 3;
  at.run(model);
  for (const segment& s : bowl_table)
    for (std::size_t i = s.offset; i < s.offset + aligned(s.size); ++i)
      REQUIRE(at.grads[i] ==
              (i < s.end() && s.what != kind::statistic ? 3 - static_cast<double>(i % 7) / 8 : 0));
  CHECK(at.announced == std::vector<std::size_t>{6, 5, 4, 3, 2, 1, 0});
}

TEST_CASE("bowl: gradients are added, each batch by its share of the update") {
  bowl<fp64> model;
  pass at;
  at.weights[0] = 1;  // whose bottom is 0
  at.run(model, 3, 8);
  CHECK(at.grads[0] == 3.0 / 8);
  CHECK(model.read_score(cpu::stream{}).count == 3);
  at.run(model, 5, 8);
  CHECK(at.grads[0] == 1);
  at.run(model, 0, 0);  // a rank without samples adds nothing
  CHECK(at.grads[0] == 1);
}

TEST_CASE("bowl: the statistic counts the passes of training, a step leads to the bottom") {
  bowl<fp64> model;
  pass at;
  model.initialise(pass::span(at.weights), 5);
  at.run(model);
  at.run(model, 1, 1, phase::evaluate);
  at.run(model);
  const std::size_t seen = bowl_table.back().offset;
  CHECK(at.weights[seen] == 2);
  for (std::size_t i = 0; i < seen; ++i) at.weights[i] -= at.grads[i] / 3;  // of three passes
  at.grads.assign(plane_size, 0);
  at.run(model);
  for (const double g : at.grads) REQUIRE(std::abs(g) < 1e-14);
}

TEST_CASE("bowl: first weights are the seed's, but one weight starts at zero, and so do the gaps") {
  const bowl<fp64> model;
  pass a, again, other;
  model.initialise(pass::span(a.weights), 5);
  model.initialise(pass::span(again.weights), 5);
  model.initialise(pass::span(other.weights), 6);
  CHECK(a.weights == again.weights);
  CHECK(a.weights != other.weights);
  for (const segment& s : bowl_table)
    for (std::size_t i = s.offset; i < s.offset + aligned(s.size); ++i) {
      const bool zero = i >= s.end() || s.name == "zero" || s.what == kind::statistic;
      REQUIRE((a.weights[i] == 0) == zero);
    }
}

TEST_CASE("bowl: poison is in one number alone") {
  bowl<fp64> model;
  model.poisoned = true;
  pass at;
  at.run(model);
  int none = 0;
  for (const double g : at.grads) none += std::isnan(g) ? 1 : 0;
  CHECK(none == 1);
  CHECK(std::isnan(at.grads[bowl_table[4].offset]));
}
