// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include <cordee/nn/resnet.hpp>

#include "tests/nn/check.hpp"

using namespace cordee;

namespace {

template <shape S, class P = fp64>
using tiny = resnet<8, P, cpu, S, reference>;
constexpr shape plain{.image = {1, 8, 8}};
constexpr shape ghost{.image = {1, 8, 8}, .group = 2};

template <class Net>
std::vector<double> copy(bench<Net>& b) {
  return {b.gradients().begin(), b.gradients().end()};
}
template <class Net>
std::vector<double> statistics(bench<Net>& b) {
  const auto tail = b.numbers().subspan(Net::segments()[Net::tensors()].offset);
  return {tail.begin(), tail.end()};
}

}  // namespace

static_assert(Model<tiny<plain>>);
static_assert(Model<resnet<20, fp32, cpu, shape{.image = {1, 28, 28}, .classes = 10}>>);

TEST_CASE("model: ready names every trainable segment once, in descending order") {
  bench<tiny<plain>> b(3);
  b.forward();
  b.backward();
  std::vector<std::size_t> expected(tiny<plain>::tensors());
  std::iota(expected.rbegin(), expected.rend(), std::size_t{0});
  CHECK(b.announced == expected);
}

TEST_CASE("model: a segment that was announced does not change any more") {
  bench<tiny<plain>> b(3);
  b.forward();
  b.backward();
  const auto finished = copy(b);
  std::fill(b.gradients().begin(), b.gradients().end(), 123.0);
  std::size_t wrong = 0;
  b.net.backward(
      b.image, b.gradients(), into::overwrite,
      [&](std::size_t i) {
        const segment& one = b.net.segments()[i];
        for (std::size_t k = 0; k < one.size; ++k)
          wrong += b.gradients()[one.offset + k] != finished[one.offset + k];
      },
      b.s);
  CHECK(wrong == 0);
}

TEST_CASE("model: ghost groups make a batch the sum of its groups") {
  bench<tiny<ghost>> whole(8);
  bench<tiny<plain>> parts(8);
  const double loss = whole.forward().loss;
  whole.backward();
  score sum;
  for (std::size_t g = 0; g < 4; ++g) {
    sum += parts.forward(parts.samples(2 * g, 2, 8));
    parts.backward(g == 0 ? into::overwrite : into::add);
  }
  CHECK(sum.count == 8);
  CHECK(sum.loss == doctest::Approx(loss).epsilon(1e-12));
  for (std::size_t i = 0; i < tiny<plain>::plane_size(); ++i)
    CHECK(std::abs(whole.gradients()[i] - parts.gradients()[i]) < 1e-12);
}

TEST_CASE("model: the gradient does not depend on how the update is cut into micro-batches") {
  bench<tiny<ghost>> once(6), twice(6);
  once.forward();
  once.backward();
  twice.forward(twice.samples(0, 4, 6));
  twice.backward();
  twice.forward(twice.samples(4, 2, 6));
  twice.backward(into::add);
  for (std::size_t i = 0; i < tiny<ghost>::plane_size(); ++i)
    CHECK(std::abs(once.gradients()[i] - twice.gradients()[i]) < 1e-12);
}

TEST_CASE("model: no samples leave the statistics, give a score of nothing and no gradient") {
  bench<tiny<plain>> b(4);
  b.forward();
  const auto before = statistics(b);
  const score none = b.forward(b.samples(0, 0, 4));
  CHECK(none.count == 0);
  CHECK(none.loss == 0);
  CHECK(statistics(b) == before);
  std::fill(b.gradients().begin(), b.gradients().end(), 123.0);
  b.backward();
  CHECK(b.announced.size() == tiny<plain>::tensors());
  for (const segment& one : b.net.segments().first(b.net.tensors()))
    for (std::size_t k = 0; k < one.size; ++k) CHECK(b.gradients()[one.offset + k] == 0);
  b.forward();
  b.backward();
  const auto gradient = copy(b);
  b.forward(b.samples(0, 0, 4));
  b.backward(into::add);
  CHECK(copy(b) == gradient);
}

TEST_CASE("model: training moves the statistics, evaluation uses and leaves them") {
  bench<tiny<plain>> b(6);
  const auto first = statistics(b);
  b.forward();
  const auto moved = statistics(b);
  CHECK(first != moved);
  const auto everyone = b.samples(0, 6, 6);
  const score together = b.forward(everyone, phase::evaluate);
  CHECK(statistics(b) == moved);
  score alone;
  for (std::size_t i = 0; i < 6; ++i) alone += b.forward(b.samples(i, 1, 1), phase::evaluate);
  CHECK(alone.loss == doctest::Approx(together.loss).epsilon(1e-12));
  CHECK(alone.top1 == together.top1);
  CHECK_THROWS_AS(b.backward(), misuse);
}

TEST_CASE("model: label smoothing is for training alone") {
  bench<tiny<plain>> smooth(4), sharp(4);
  smooth.net.label_smoothing = 0.1;
  CHECK(smooth.forward().loss != sharp.forward().loss);
  const auto everyone = sharp.samples(0, 4, 4);
  CHECK(smooth.forward(everyone, phase::evaluate).loss ==
        sharp.forward(everyone, phase::evaluate).loss);
}

TEST_CASE("model: the first weights depend on the seed alone, and have the promised spread") {
  using net = resnet<8, fp64, cpu>;
  net a(cpu(1)), b(cpu(2));
  arena<double, cpu> memory(a.where(), net::segments(), 3);
  a.initialise(memory.plane(0), 5);
  std::fill(memory.plane(1).begin(), memory.plane(1).end(), 9.0);
  b.initialise(memory.plane(1), 5);
  b.initialise(memory.plane(2), 6);
  CHECK(std::equal(memory.plane(0).begin(), memory.plane(0).end(), memory.plane(1).begin()));
  CHECK_FALSE(std::equal(memory.plane(0).begin(), memory.plane(0).end(), memory.plane(2).begin()));
  for (const segment& one : net::segments()) {
    const auto at = memory.plane(0).subspan(one.offset, one.size);
    double square = 0;
    for (const double w : at) square += w * w;
    const double mean_square = square / static_cast<double>(one.size);
    const std::string name(one.name);
    CAPTURE(name);
    if (one.what == kind::weight && one.size > 2000)
      CHECK(mean_square ==
            doctest::Approx(2.0 / (one.shape[0] * one.shape[2] * one.shape[3])).epsilon(0.1));
    else if (name == "fc.weight")
      CHECK(mean_square == doctest::Approx(1e-4).epsilon(0.15));
    else if (one.what == kind::scale)  // zero for the last norm of a block
      CHECK(mean_square == (name.starts_with("layer") && name.ends_with("bn2.weight") ? 0 : 1));
    else if (name.ends_with("running_var"))
      CHECK(mean_square == 1);
    else if (one.what != kind::weight)
      CHECK(mean_square == 0);
  }
}

TEST_CASE(
    "model: with zero gammas only the classifier and the scales of last norms hear at first") {
  using net = tiny<plain>;
  bench<net> b(4);
  b.net.initialise(b.weights(), 3);
  b.forward();
  b.backward();
  for (const segment& one : net::segments().first(net::tensors())) {
    double square = 0;
    for (std::size_t k = 0; k < one.size; ++k)
      square += b.gradients()[one.offset + k] * b.gradients()[one.offset + k];
    const bool inside = one.name.starts_with("layer") && one.name.find("bn2") == one.name.npos;
    CHECK_MESSAGE((square == 0) == inside, one.name);
  }
}

TEST_CASE("model: results do not depend on the number of workers") {
  bench<tiny<ghost, fp32>> one(5, 1, 1), three(5, 1, 3);
  CHECK(one.forward().loss == three.forward().loss);
  one.backward();
  three.backward();
  CHECK(copy(one) == copy(three));
}

TEST_CASE(
    "model: a batch that is too small, without a global count or without classes is refused") {
  bench<tiny<plain>> b(4);
  batch<cpu> few = b.samples(0, 4, 4);
  few.count = 5;
  CHECK_THROWS_AS(b.forward(few), misuse);
  CHECK_THROWS_AS(b.forward(b.samples(0, 4, 0)), misuse);
  b.labels[2] = 10;
  CHECK_THROWS_AS(b.forward(), error);
}

TEST_CASE("model: a network may be moved between forward and backward") {
  bench<tiny<plain>> b(3);
  b.forward();
  b.backward();
  const auto gradient = copy(b);
  b.forward();
  auto moved = std::move(b.net);
  moved.backward(
      b.image, b.gradients(), into::overwrite, [](std::size_t) {}, b.s);
  CHECK(copy(b) == gradient);
}
