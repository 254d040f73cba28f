// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>
#include <string>

#include <malloc.h>

#include <cordee/nn/resnet.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using support::relative;

namespace {

template <resnet_options S, class P = fp64>
using tiny = resnet<8, P, cpu, S, reference>;
constexpr resnet_options plain{.image = {1, 8, 8}};
constexpr resnet_options ghost{.image = {1, 8, 8}, .ghost_batch = 2};

template <class Net>
std::vector<double> copy(network_fixture<Net>& b) {
  return {b.gradients().begin(), b.gradients().end()};
}
template <class Net>
std::vector<double> statistics(network_fixture<Net>& b) {
  const auto tail = b.numbers().subspan(Net::segments()[Net::tensors()].offset);
  return {tail.begin(), tail.end()};
}

}  // namespace

TEST_CASE("network: ready names every trainable segment once, in descending order") {
  network_fixture<tiny<plain>> b(3);
  b.forward();
  b.backward();
  std::vector<std::size_t> expected(tiny<plain>::tensors());
  std::iota(expected.rbegin(), expected.rend(), std::size_t{0});
  CHECK(b.ready_order == expected);
}

TEST_CASE("network: a second backward pass is refused, and logits stay") {
  network_fixture<tiny<plain>> b(3);
  b.forward();
  const auto logits = [&] { return std::vector(b.net.logits().begin(), b.net.logits().end()); };
  const auto before = logits();
  b.backward();
  CHECK(logits() == before);
  CHECK_THROWS_AS(b.backward(), usage_error);
  b.forward();
  b.backward();
}

TEST_CASE("network: a segment does not change after ready") {
  network_fixture<tiny<plain>> b(3);
  b.forward();
  b.backward();
  const auto finished = copy(b);
  std::fill(b.gradients().begin(), b.gradients().end(), 123.0);
  b.forward();
  std::size_t wrong = 0;
  b.net.backward(
      b.packed, b.gradients(), write_mode::overwrite,
      [&](std::size_t i) {
        const segment& s = b.net.segments()[i];
        for (std::size_t k = 0; k < s.size; ++k)
          wrong += b.gradients()[s.offset + k] != finished[s.offset + k];
      },
      b.s);
  CHECK(wrong == 0);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("network: a training pass takes bytes_per_sample for each sample, and little more") {
  const auto taken = [](int samples) {  // by the first pass, in bytes
    network_fixture<tiny<plain>> b(samples);
    const auto in_use = [] {
      const struct ::mallinfo2 m = ::mallinfo2();
      return static_cast<double>(m.uordblks + m.hblkhd);
    };
    const double before = in_use();
    b.forward();
    b.backward();
    return in_use() - before;
  };
  const auto stated =
      100 * static_cast<double>(network_fixture<tiny<plain>>(1).net.bytes_per_sample());
  const double grown = taken(200) - taken(100);
  CHECK(grown >= 0.99 * stated);  // buffers are rounded up, and so may be those of 100 samples
  CHECK(grown <= 1.5 * stated);   // temporary memory of passes is not counted
}
#else
TEST_CASE("network: a training pass takes bytes_per_sample for each sample, and little more") {
  support::skip("only glibc, without a sanitizer, counts what is allocated");
}
#endif

TEST_CASE("network: with ghost batches a batch is the sum of its ghost batches") {
  network_fixture<tiny<ghost>> whole(8);
  network_fixture<tiny<plain>> parts(8);
  const double loss = whole.forward().loss;
  whole.backward();
  metrics sum;
  for (std::size_t g = 0; g < 4; ++g) {
    sum += parts.forward(parts.samples(2 * g, 2, 8));
    parts.backward(g == 0 ? write_mode::overwrite : write_mode::add);
  }
  CHECK(sum.count == 8);
  CHECK(sum.loss == relative(loss, 1e-12));
  for (std::size_t i = 0; i < tiny<plain>::plane_size(); ++i)
    CHECK(std::abs(whole.gradients()[i] - parts.gradients()[i]) < 1e-12);
}

TEST_CASE("network: the gradient does not depend on the division of an update into micro-batches") {
  network_fixture<tiny<ghost>> once(6), twice(6);
  once.forward();
  once.backward();
  twice.forward(twice.samples(0, 4, 6));
  twice.backward();
  twice.forward(twice.samples(4, 2, 6));
  twice.backward(write_mode::add);
  for (std::size_t i = 0; i < tiny<ghost>::plane_size(); ++i)
    CHECK(std::abs(once.gradients()[i] - twice.gradients()[i]) < 1e-12);
}

TEST_CASE("network: an empty batch keeps the statistics and has zero metrics and gradients") {
  network_fixture<tiny<plain>> b(4);
  b.forward();
  const auto before = statistics(b);
  const metrics none = b.forward(b.samples(0, 0, 4));
  CHECK(none.count == 0);
  CHECK(none.loss == 0);
  CHECK(statistics(b) == before);
  std::fill(b.gradients().begin(), b.gradients().end(), 123.0);
  b.backward();
  CHECK(b.ready_order.size() == tiny<plain>::tensors());
  for (const segment& s : b.net.segments().first(b.net.tensors()))
    for (std::size_t k = 0; k < s.size; ++k) CHECK(b.gradients()[s.offset + k] == 0);
  b.forward();
  b.backward();
  const auto gradient = copy(b);
  b.forward(b.samples(0, 0, 4));
  b.backward(write_mode::add);
  CHECK(copy(b) == gradient);
}

TEST_CASE("network: training updates the statistics, evaluation reads them") {
  network_fixture<tiny<plain>> b(6);
  const auto first = statistics(b);
  b.forward();
  const auto moved = statistics(b);
  CHECK(first != moved);
  const auto whole = b.samples(0, 6, 6);
  const metrics batched = b.forward(whole, phase::evaluate);
  CHECK(statistics(b) == moved);
  metrics single;
  for (std::size_t i = 0; i < 6; ++i) single += b.forward(b.samples(i, 1, 1), phase::evaluate);
  CHECK(single.loss == relative(batched.loss, 1e-12));
  CHECK(single.top1 == batched.top1);
  CHECK_THROWS_AS(b.backward(), usage_error);
}

TEST_CASE("network: label smoothing applies in training alone") {
  network_fixture<tiny<plain>> smooth(4), sharp(4);
  smooth.net.loss.label_smoothing = 0.1;
  CHECK(smooth.forward().loss != sharp.forward().loss);
  const auto whole = sharp.samples(0, 4, 4);
  CHECK(smooth.forward(whole, phase::evaluate).loss == sharp.forward(whole, phase::evaluate).loss);
}

TEST_CASE("network: initial weights depend on the seed alone and have the variance of the method") {
  using net = resnet<8, fp64, cpu>;
  net a(cpu(1)), b(cpu(2));
  arena<double, cpu> memory(a.get_device(), net::segments(), 3);
  a.initialize(memory.plane(0), 5);
  std::fill(memory.plane(1).begin(), memory.plane(1).end(), 9.0);
  b.initialize(memory.plane(1), 5);
  b.initialize(memory.plane(2), 6);
  CHECK(std::equal(memory.plane(0).begin(), memory.plane(0).end(), memory.plane(1).begin()));
  CHECK_FALSE(std::equal(memory.plane(0).begin(), memory.plane(0).end(), memory.plane(2).begin()));
  for (const segment& s : net::segments()) {
    double square = 0;
    for (const double w : memory.plane(0).subspan(s.offset, s.size)) square += w * w;
    const double mean_square = square / static_cast<double>(s.size);
    const std::string name(s.name);
    CAPTURE(name);
    // The mean square of n normal numbers has the relative standard deviation sqrt(2 / n).
    const double five_deviations = 5 * std::sqrt(2.0 / static_cast<double>(s.size));
    if (name == "fc.weight")  // 1 / features
      CHECK(mean_square == relative(1.0 / 64, five_deviations));
    else if (s.kind == kind::weight)  // He et al., fan-out
      CHECK(mean_square == relative(2.0 / (s.shape[0] * s.shape[2] * s.shape[3]), five_deviations));
    else if (s.kind == kind::scale)  // zero for the last norm of a block
      CHECK(mean_square == (name.starts_with("layer") && name.ends_with("bn2.weight") ? 0 : 1));
    else if (name.ends_with("running_var"))
      CHECK(mean_square == 1);
    else
      CHECK(mean_square == 0);
  }
}

TEST_CASE("network: with zero gammas the layers inside blocks have zero gradients initially") {
  using net = tiny<plain>;
  network_fixture<net> b(4);
  b.net.initialize(b.weights(), 3);
  b.forward();
  b.backward();
  for (const segment& s : net::segments().first(net::tensors())) {
    double square = 0;
    for (std::size_t k = 0; k < s.size; ++k)
      square += b.gradients()[s.offset + k] * b.gradients()[s.offset + k];
    const bool inside = s.name.starts_with("layer") && s.name.find("bn2") == s.name.npos;
    CHECK_MESSAGE((square == 0) == inside, s.name);
  }
}

TEST_CASE("network: results do not depend on the number of workers") {
  network_fixture<tiny<ghost, fp32>> one(5, 1, 1), three(5, 1, 3);
  CHECK(one.forward().loss == three.forward().loss);
  one.backward();
  three.backward();
  CHECK(copy(one) == copy(three));
}

TEST_CASE("network: too few labels, no global_samples and a label out of range are errors") {
  network_fixture<tiny<plain>> b(4);
  batch<cpu> few = b.samples(0, 4, 4);
  few.count = 5;
  CHECK_THROWS_AS(b.forward(few), usage_error);
  CHECK_THROWS_AS(b.forward(b.samples(0, 4, 0)), usage_error);
  b.labels[2] = 10;
  CHECK_THROWS_AS(b.forward(), error);
}

TEST_CASE("network: a network may be moved between forward and backward") {
  network_fixture<tiny<plain>> b(3);
  b.forward();
  b.backward();
  const auto gradient = copy(b);
  b.forward();
  auto moved = std::move(b.net);
  moved.backward(
      b.packed, b.gradients(), write_mode::overwrite, [](std::size_t) {}, b.s);
  CHECK(copy(b) == gradient);
}
