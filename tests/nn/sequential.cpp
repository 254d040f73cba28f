// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/dropout.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

template <class... Layers>
using small = network<sequential<Layers...>, fp64, cpu, reference, extent{2, 5, 4}, 3>;

}  // namespace

TEST_CASE("sequential: extents follow from the layers") {
  using layers = sequential<convolution<8, 3, 2>, relu, convolution<4, 1>, global_average_pool>;
  static_assert(layers::out({3, 9, 8}) == extent{4, 1, 1});
  static_assert(sequential<convolution<8, 5, 2>>::out({3, 9, 8}) == extent{8, 5, 4});
  static_assert(repeat<3, relu>::out({3, 9, 8}) == extent{3, 9, 8});
}

namespace {

struct own_node {};
struct skipping_node {
  static constexpr bool skips_frozen_gradients = true;
};
template <class... Nodes>
constexpr bool skips = detail::nn::sequential_node<std::index_sequence_for<Nodes...>,
                                                   Nodes...>::skips_frozen_gradients;

}  // namespace

TEST_CASE("sequential: frozen gradients are skipped if all layers say so") {
  static_assert(skips<skipping_node, skipping_node> && !skips<skipping_node, own_node>);
  static_assert(detail::nn::repeat_node<skipping_node>::skips_frozen_gradients &&
                !detail::nn::repeat_node<own_node>::skips_frozen_gradients);
  using net = small<convolution<4>, batch_norm<relu>, max_pool<>, relu, identity,
                    residual<convolution<4>, batch_norm<>, projection<4, 1>>,
                    repeat<2, convolution<4>>, global_average_pool, dropout, linear<3>>;
  static_assert(net::skips_frozen_gradients);
}

namespace {

/// Layers of a user's own, which ask for no memory.
template <int Channels>
struct own_layer {
  static constexpr extent out(extent e) { return {Channels, e.height, e.width}; }
  static constexpr void describe(const extent&, parameter_registry&) {}
  template <class B, extent In>
  static own_node bind(layout_builder&) {
    return {};
  }
};
template <class L>
std::size_t largest_activation() {
  using backend = detail::nn::backend<fp64, cpu, reference>;
  layout_builder layout;
  (void)L::template bind<backend, extent{2, 5, 4}>(layout);
  return layout.largest_activation;
}

}  // namespace

TEST_CASE("sequential: buffers hold the input and the output of each layer of one's own") {
  CHECK(largest_activation<sequential<own_layer<64>, own_layer<3>>>() == 64 * 20);
  CHECK(largest_activation<sequential<own_layer<3>, own_layer<64>>>() == 64 * 20);
  CHECK(largest_activation<sequential<own_layer<1>>>() == 2 * 20);
  CHECK(largest_activation<repeat<2, own_layer<2>>>() == 2 * 20);
}

TEST_CASE("sequential: a batch norm's output that one convolution or max pool reads is not kept") {
  const auto kept = []<class L>(const L*) {
    layout_builder layout{.table = detail::nn::parameter_table<L, extent{2, 8, 8}>::segments};
    (void)L::template bind<detail::nn::backend<fp64, cpu, reference>, extent{2, 8, 8}>(layout);
    return layout.kept.bytes;
  };
  using body = sequential<convolution<4>, batch_norm<relu>, convolution<4>>;
  constexpr std::size_t image = 8 * 8 * 4 * sizeof(double);
  CHECK(kept(static_cast<const body*>(nullptr)) == 2 * image);
  // the sum's memory has the shortcut's first
  CHECK(kept(static_cast<const residual<body, batch_norm<>, projection<4, 1>>*>(nullptr)) ==
        4 * image);
  CHECK(kept(static_cast<const residual<body, batch_norm<>, subsample_pad<4, 1>>*>(nullptr)) ==
        3 * image);
  CHECK(kept(static_cast<const sequential<convolution<4>, batch_norm<relu>, relu>*>(nullptr)) ==
        3 * image);
  using pooled = sequential<convolution<4>, batch_norm<relu>, max_pool<3, 2>>;
  CHECK(kept(static_cast<const pooled*>(nullptr)) == image + image / 4 + 4 * 4 * 4);
}

TEST_CASE("sequential: every layer's gradient is the derivative of the loss") {
  network_fixture<small<convolution<5, 3, 2>, batch_norm<>, relu, convolution<4, 1>,
                        batch_norm<relu>, global_average_pool, linear<3>>>(4)
      .check_gradients(20);
}

TEST_CASE("sequential: relu and batch_norm as first layers, without an input gradient") {
  network_fixture<
      small<relu, batch_norm<>, identity, convolution<4>, global_average_pool, linear<3>>>(3)
      .check_gradients(20);
}

TEST_CASE_TEMPLATE("sequential: gradients through a max pool, in the middle and as the first layer",
                   Engine, reference, direct) {
  network_fixture<
      network<sequential<convolution<5>, batch_norm<relu>, max_pool<>, convolution<4, 1>,
                         batch_norm<relu>, global_average_pool, linear<3>>,
              fp64, cpu, Engine, extent{2, 7, 6}, 3>>(4)
      .check_gradients(20);
  network_fixture<network<sequential<max_pool<2>, convolution<4>, global_average_pool, linear<3>>,
                          fp64, cpu, Engine, extent{3, 7, 6}, 3>>(3)
      .check_gradients(20);
}

TEST_CASE("sequential: a max pool adds onto the gradient of a shortcut") {
  using body = sequential<max_pool<3, 1>, convolution<4>>;
  network_fixture<
      small<convolution<4>, residual<body, batch_norm<>>, global_average_pool, linear<3>>>(4)
      .check_gradients(20);
}

namespace {

/// y = a(x) b(x), b first in forward and in backward: not in the order in which they are bound.
template <class B, class Branch>
struct product_node {
  using number = typename B::number;
  Branch a, b;
  extent at;
  std::size_t activation;
  const number *of_a = nullptr, *of_b = nullptr;

  void pack_parameters(const pack_pass<B>& pass) const {
    a.pack_parameters(pass);
    b.pack_parameters(pass);
  }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    of_b = b.forward(pass, x);
    of_a = a.forward(pass, x);
    number* const y = pass.buffer_for(activation, B::numbers(at));
    for (std::size_t i = 0; i < size(pass.samples); ++i) y[i] = of_a[i] * of_b[i];
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> to,
                   Ready& ready) {
    number* const da = pass.gradients->acquire();
    std::copy_n(dy, size(pass.samples), da);
    for (std::size_t i = 0; i < size(pass.samples); ++i) dy[i] *= of_a[i];
    number* const dx = b.backward(pass, dy, to, ready);
    for (std::size_t i = 0; i < size(pass.samples); ++i) da[i] *= of_b[i];
    return a.backward(pass, da, {.accumulate_into = dx}, ready);
  }
  [[nodiscard]] std::size_t size(int samples) const {
    return static_cast<std::size_t>(samples) * B::numbers(at);
  }
};
template <class Branch>
struct product {
  static constexpr extent out(const extent& in) { return Branch::out(in); }
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    Branch::describe(in, registry);
    Branch::describe(in, registry);
  }
  template <class B, extent In>
  static auto bind(layout_builder& to) {
    auto a = Branch::template bind<B, In>(to), b = Branch::template bind<B, In>(to);
    return product_node<B, decltype(a)>{
        a, b, out(In), to.add_activation(sizeof(typename B::number) * B::numbers(out(In)))};
  }
};

}  // namespace

TEST_CASE("sequential: gradients through a layer that reads its activations in its own order") {
  using branch = sequential<convolution<4>, batch_norm<relu>, convolution<4>, batch_norm<relu>>;
  network_fixture<small<convolution<4>, product<branch>, product<branch>, convolution<5>,
                        batch_norm<relu>, global_average_pool, linear<3>>>(4)
      .check_gradients(20);
}

TEST_CASE("repeat: zero layers are the identity, several are as many layers") {
  using plain = small<convolution<4>, batch_norm<relu>, global_average_pool, linear<3>>;
  using none = small<convolution<4>, batch_norm<relu>, repeat<0, convolution<4>>,
                     global_average_pool, linear<3>>;
  using three = small<repeat<3, sequential<convolution<2>, batch_norm<relu>>>, global_average_pool,
                      linear<3>>;
  static_assert(plain::parameters() == none::parameters());
  static_assert(three::convolutions() == 3);
  network_fixture<plain> a(3);
  network_fixture<none> b(3);
  CHECK(a.mean_loss() == b.mean_loss());
  a.backward();
  b.backward();
  CHECK(a.ready_order == b.ready_order);
  CHECK(std::equal(a.gradients().begin(), a.gradients().end(), b.gradients().begin()));
  network_fixture<three>(3).check_gradients(20);
}
