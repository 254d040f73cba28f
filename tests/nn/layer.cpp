// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/nn/layer.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp64.hpp>

using namespace cordee;

namespace {

using layer_backend = detail::nn::backend<fp64, cpu, reference>;
using forward_arguments = forward_pass<layer_backend>;
using backward_arguments = backward_pass<layer_backend>;

enum class call { none, alone, with_neighbor };

struct plain_node {
  call forwarded = call::none, returned = call::none;

  const double* forward(const forward_arguments&, const double* x) {
    forwarded = call::alone;
    return x;
  }
  template <class Ready>
  double* backward(const backward_arguments&, double* dy, gradient_target<double>, Ready&) {
    returned = call::alone;
    return dy;
  }
};

struct neighbor {
  int input_target(const forward_arguments&) { return 0; }
  int gradient_operands(const backward_arguments&) { return 0; }
};

struct helpful_node : plain_node {
  using plain_node::backward, plain_node::forward;

  const double* forward(const forward_arguments&, const double* x, neighbor&) {
    forwarded = call::with_neighbor;
    return x;
  }
  template <class Ready>
  double* backward(const backward_arguments&, double* dy, gradient_target<double>, Ready&,
                   neighbor&) {
    returned = call::with_neighbor;
    return dy;
  }
};

template <class Node, class Next>
Node called_beside(Next next) {
  using detail::nn::forward_before, detail::nn::backward_behind;
  Node node;
  forward_arguments forward{};
  backward_arguments backward{};
  const double* const x = nullptr;
  double* const dy = nullptr;
  const auto ready = [](std::size_t) {};
  forward_before(node, forward, x, next);
  backward_behind(node, backward, dy, gradient_target<double>{}, ready, next);
  return node;
}

}  // namespace

TEST_CASE("layer: a node's optional passes are called where the neighbor is theirs, only there") {
  const auto both = called_beside<helpful_node>(neighbor{});
  CHECK(both.forwarded == call::with_neighbor);
  CHECK(both.returned == call::with_neighbor);
  const auto other = called_beside<helpful_node>(plain_node{});
  CHECK(other.forwarded == call::alone);
  CHECK(other.returned == call::alone);
  const auto without = called_beside<plain_node>(neighbor{});
  CHECK(without.forwarded == call::alone);
  CHECK(without.returned == call::alone);

  CHECK(detail::nn::QuantizesInput<neighbor, layer_backend>);
  CHECK_FALSE(detail::nn::QuantizesInput<plain_node, layer_backend>);
  CHECK(detail::nn::HasGradientOperands<neighbor, layer_backend>);
  CHECK_FALSE(detail::nn::HasGradientOperands<plain_node, layer_backend>);
}

TEST_CASE("backward_pass: an input gradient is returned, added to its target, or dropped") {
  constexpr extent in{1, 1, 2};
  detail::nn::activations<cpu> pool(cpu(1), 0);
  detail::nn::gradient_buffers<double, cpu> buffers(pool, 6);
  backward_arguments pass{};
  pass.samples = 3;
  pass.gradients = &buffers;
  const auto computed = [&] {
    double* const dx = buffers.acquire();
    for (int i = 0; i < 6; ++i) dx[i] = i + 1;
    return dx;
  };

  double* const dx = computed();
  CHECK(pass.route_input_gradient(in, dx, {}) == dx);
  CHECK(buffers.acquire() != dx);  // it is still in use
  buffers.release(dx);

  std::array<double, 7> sum{10, 20, 30, 40, 50, 60, 70};
  double* const added = computed();
  CHECK(pass.route_input_gradient(in, added, {sum.data()}) == sum.data());
  CHECK(sum == std::array<double, 7>{11, 22, 33, 44, 55, 66, 70});
  CHECK(buffers.acquire() == added);  // it was released

  double* const dropped = computed();
  CHECK(pass.route_input_gradient(in, dropped, {nullptr, false}) == nullptr);
  CHECK(buffers.acquire() == dropped);
}
