// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/adversarial.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/precision/fp64.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;
using namespace cordee::detail;

namespace {

constexpr resnet_options tiny{.image = {3, 8, 8}, .classes = 4, .zero_gamma = false};
template <class Engine>
using net_on = resnet<8, fp64, cpu, tiny, Engine>;
using plain_net = net_on<reference>;
using model = adversarial<plain_net>;
constexpr std::size_t count = 6;
static_assert(std::is_same_v<decltype(std::declval<model&>().evaluated()), const plain_net&>,
              "options set there would be those of one of two networks");

struct fixture : network_fixture<model> {
  explicit fixture(detail::nn::adversarial_options options = {}) : network_fixture<model>(count) {
    net.options = options;
    labels = {0, 1, 2, 3, 0, 1};
  }
  [[nodiscard]] std::vector<std::uint8_t> adversarial_images() const {
    const auto images = net.adversarial_images();
    return {images.begin(), images.end()};
  }
  /// The network's plane with the scales and shifts of the adversarial images.
  [[nodiscard]] std::vector<double> adversarial_plane() {
    std::vector<double> plane(plain_net::plane_size());
    std::copy_n(weights().data, plain_net::segments()[plain_net::tensors()].offset, plane.begin());
    for (const segment& norm : plain_net::segments().first(plain_net::tensors()))
      for (const segment& second : model::segments())
        if (second.name == concat("adversarial.", norm.name))
          std::copy_n(weights().data + second.offset, norm.size,
                      plane.begin() + static_cast<std::ptrdiff_t>(norm.offset));
    return plane;
  }
};

/// The mean loss of a network with a plane of its own, in training; its gradient by weights in
/// `gradients` if that is given.
double loss_of(plain_net& n, std::vector<double>& plane, const batch<cpu>& b,
               std::vector<double>* gradients = nullptr) {
  auto packed = n.make_packed_parameters();
  const cpu::stream s = n.get_device().make_stream();
  n.pack_parameters({plane.data(), plane.size()}, packed, s);
  std::vector<double> changed = plane;  // whose statistics the pass changes
  n.forward(packed, {changed.data(), changed.size()}, b, phase::train, s);
  if (gradients != nullptr) {
    gradients->assign(plane.size(), 0);
    n.backward(
        packed, {gradients->data(), gradients->size()}, write_mode::add, [](std::size_t) {}, s);
  }
  return n.read_metrics(s).loss / b.count;
}

}  // namespace

TEST_CASE("adversarial: the gradient is the mean of that of the images and of their copies") {
  fixture f({.epsilon = 20, .step_size = 20});
  for (auto& w : f.gradients()) w = 0.5;  // to which backward adds
  f.forward();
  f.backward(write_mode::add);
  CHECK(f.adversarial_images() != f.pixels);

  plain_net alone;
  std::vector<double> clean(f.weights().begin(), f.weights().begin() + plain_net::plane_size()),
      second = f.adversarial_plane(), of_images, of_copies;
  batch<cpu> b = f.samples(0, count, count);
  loss_of(alone, clean, b, &of_images);
  const auto copies = f.adversarial_images();
  b.pixels = {copies.data(), copies.size()};
  loss_of(alone, second, b, &of_copies);
  for (const segment& s : model::segments().first(model::tensors())) {
    CAPTURE(s.name);
    const bool is_second = s.name.starts_with("adversarial.");
    const std::string_view name = is_second ? s.name.substr(12) : s.name;
    const bool is_norm = nn::is_batch_norm(s);
    for (const segment& t : plain_net::segments())
      for (std::size_t i = 0; t.name == name && i < s.size; ++i) {
        const double expected = 0.5 + ((is_norm && is_second ? 0 : of_images[t.offset + i]) +
                                       (is_norm && !is_second ? 0 : of_copies[t.offset + i])) /
                                          2;
        REQUIRE(std::abs(f.gradients()[s.offset + i] - expected) < 1e-12);
      }
  }
  REQUIRE(f.ready_order.size() == model::tensors());
  for (std::size_t k = 0; k < f.ready_order.size(); ++k)
    CHECK(f.ready_order[k] == model::tensors() - 1 - k);
}

TEST_CASE("adversarial: a step goes down the loss of the wrong class, by differences of bytes") {
  fixture f({.epsilon = 3, .step_size = 3, .random_start = 0, .stale = false});
  f.forward();
  const auto copies = f.adversarial_images();
  std::vector<std::int32_t> wrong(count);
  nn::draw_target_classes(4, f.labels, 0, 0, 0, wrong.data());
  plain_net alone;
  std::vector<double> plane = f.adversarial_plane();
  batch<cpu> b = f.samples(0, count, count);
  std::vector<std::uint8_t> x(f.pixels);
  b.pixels = {x.data(), x.size()};
  b.labels = {wrong.data(), count};
  int agreed = 0, seen = 0;
  for (std::size_t i = 0; i < x.size(); i += 23) {
    if (f.pixels[i] < 3 || f.pixels[i] > 252) continue;  // where the copy is limited
    const auto at = [&](int change) {
      x[i] = static_cast<std::uint8_t>(f.pixels[i] + change);
      return loss_of(alone, plane, b);
    };
    const double difference = at(1) - at(-1);
    x[i] = f.pixels[i];
    REQUIRE(std::abs(copies[i] - f.pixels[i]) == 3);
    ++seen;
    agreed += (copies[i] < f.pixels[i]) == (difference > 0);
  }
  CHECK(seen > 40);
  // Two grey levels of 255 can cross a kink of ReLU where the slope is small.
  CHECK(agreed >= seen - seen / 50);
}

TEST_CASE("adversarial: copies stay within epsilon, whatever the steps and the start") {
  for (const int steps : {1, 3})
    for (const double start : {0.0, 1.0}) {
      fixture f({.epsilon = 5, .step_size = 2, .steps = steps, .random_start = start});
      f.forward();
      const auto copies = f.adversarial_images();
      int largest = 0;
      for (std::size_t i = 0; i < copies.size(); ++i)
        largest = std::max(largest, std::abs(copies[i] - f.pixels[i]));
      CHECK(largest == 5);
    }
}

TEST_CASE("adversarial: stale copies are those of the weights of the packing before") {
  fixture fresh({.stale = false}), stale;
  fresh.forward();
  const auto of_first_weights = fresh.adversarial_images();
  stale.forward();
  CHECK(stale.adversarial_images() == of_first_weights);  // the first step has no weights before
  for (int k = 0; k < 2; ++k) {
    const auto before = fresh.adversarial_images();
    for (fixture* f : {&fresh, &stale})
      for (std::size_t i = 0; i < f->weights().size; ++i)
        f->weights()[i] += 0.3 * std::sin(static_cast<double>(i + 1));
    fresh.forward();
    stale.forward();
    CHECK(stale.adversarial_images() == before);
    CHECK(fresh.adversarial_images() != before);
  }
}

TEST_CASE("adversarial: evaluates by the batch norms of the images alone") {
  fixture f;
  f.forward();  // running statistics of both
  for (const segment& s : model::segments())
    if (s.name.starts_with("adversarial."))
      for (std::size_t i = 0; i < s.size; ++i) f.weights()[s.offset + i] += 1;
  const metrics all = f.forward(f.samples(0, count, count), phase::evaluate);
  plain_net alone;
  std::vector<double> plane(f.weights().begin(), f.weights().begin() + plain_net::plane_size());
  const segment& first = plain_net::segments()[plain_net::tensors()];
  for (const segment& s : model::segments())
    if (s.name == first.name)
      std::copy_n(f.weights().data + s.offset, plain_net::plane_size() - first.offset,
                  plane.begin() + static_cast<std::ptrdiff_t>(first.offset));
  auto packed = alone.make_packed_parameters();
  alone.pack_parameters({plane.data(), plane.size()}, packed, f.s);
  alone.forward(packed, {plane.data(), plane.size()}, f.samples(0, count, count), phase::evaluate,
                f.s);
  CHECK(alone.read_metrics(f.s).loss == all.loss);
}

TEST_CASE("adversarial: engines agree on the gradient of an image") {
  std::vector<double> gradients[2];
  const auto compute = [&]<class Engine>(std::vector<double>& out, Engine) {
    network_fixture<detail::nn::input_gradient_network<net_on<Engine>>> f(3);
    f.forward();
    constexpr int block = Engine::template block<double>(3);
    const double* const g = f.net.input_gradient(f.packed, f.gradients(), f.s);
    for (std::size_t n = 0; n < 3; ++n)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t p = 0; p < 64; ++p)
          out.push_back(g[(n * 3 + c / block * block) * 64 + p * block + c % block]);
    for (const segment& s : plain_net::segments())
      if (s.kind == kind::weight)
        for (std::size_t i = 0; i < s.size; ++i) CHECK(f.gradients()[s.offset + i] == 0);
  };
  compute(gradients[0], reference{});
  compute(gradients[1], direct{});
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    CHECK(std::abs(gradients[0][i] - gradients[1][i]) < 1e-12);
  CHECK(*std::max_element(gradients[0].begin(), gradients[0].end()) > 1e-4);
}

TEST_CASE("adversarial describes itself, and refuses nonsense") {
  model m({.epsilon = 4, .steps = 3});
  CHECK(m.describe() ==
        "and on images within 4 of 255 grey levels, 3 steps of 9, of the weights of the step "
        "before");
  const auto refused = [&](detail::nn::adversarial_options options, const char* text) {
    m.options = options;
    CHECK_THROWS_WITH_AS(m.check(), doctest::Contains(text), usage_error);
  };
  refused({.epsilon = 0}, ".epsilon is within");
  refused({.step_size = -1}, ".step_size is within");
  refused({.steps = 0}, ".steps is a number");
  refused({.random_start = NAN}, ".random_start is a probability");
}
