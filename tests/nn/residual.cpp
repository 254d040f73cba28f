// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>

#include <cordee/nn/linear.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

template <class Engine, class... Layers>
using small = network<sequential<Layers..., global_average_pool, linear<3>>, fp64, cpu, Engine,
                      extent{2, 6, 5}, 3>;

template <int Channels, int Stride, class Shortcut>
using block = residual<
    sequential<convolution<Channels, 3, Stride>, batch_norm<relu>, convolution<Channels, 3>>,
    batch_norm<>, Shortcut>;

}  // namespace

TEST_CASE("residual: gradients through every shortcut are derivatives of the loss") {
  network_fixture<small<reference, convolution<4>, block<4, 1, identity>>>(4).check_gradients(20);
  network_fixture<small<reference, convolution<4>, block<8, 2, subsample_pad<8>>>>(4)
      .check_gradients(20);
  network_fixture<small<reference, convolution<4>, block<6, 2, projection<6>>>>(4).check_gradients(
      20);
}

TEST_CASE("residual: a block as the first layer, and inside another block") {
  network_fixture<small<reference, block<2, 1, identity>>>(4).check_gradients(20);
  network_fixture<small<reference, block<4, 2, projection<4>>>>(4).check_gradients(20);
  network_fixture<
      small<reference, convolution<4>,
            residual<sequential<block<4, 1, identity>, convolution<4, 1>>, batch_norm<>>>>(4)
      .check_gradients(20);
  network_fixture<small<reference, convolution<2>,
                        residual<sequential<block<4, 2, subsample_pad<4>>, convolution<4, 1>>,
                                 batch_norm<>, projection<4>>>>(4)
      .check_gradients(20);
}

TEST_CASE("residual: ready calls descend without a gap") {
  using net = small<reference, convolution<4>, block<6, 2, projection<6>>>;
  network_fixture<net> b(2);
  b.forward();
  b.backward();
  std::vector<std::size_t> expected(net::tensors());
  std::iota(expected.rbegin(), expected.rend(), std::size_t{0});
  CHECK(b.ready_order == expected);
}

TEST_CASE("residual: no layer writes the gradient of a frozen segment") {
  network_fixture<small<reference, convolution<4>, block<6, 2, projection<6>>>> b(2);
  b.check_frozen_gradients();
}

TEST_CASE("residual: blocked and plain layouts compute the same function") {
  using plain = small<reference, convolution<12>, block<20, 2, subsample_pad<20>>,
                      block<36, 2, subsample_pad<36>>>;
  using blocked = small<direct, convolution<12>, block<20, 2, subsample_pad<20>>,
                        block<36, 2, subsample_pad<36>>>;
  network_fixture<plain> a(3);
  network_fixture<blocked> b(3);
  CHECK(a.mean_loss() == support::relative(b.mean_loss(), 1e-12));
  a.backward();
  b.backward();
  for (std::size_t i = 0; i < plain::plane_size(); ++i)
    CHECK(std::abs(a.gradients()[i] - b.gradients()[i]) < 1e-12);
}
