// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A block of your own, made of the library's layers: the residual block with batch norm and ReLU
// before the convolutions (He et al. 2016b), y = x + body(x). It trains briefly; --check compares
// its gradients with finite differences of the loss.
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/gradient.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// The node of a layer packs parameters, and computes forward and backward (nn/layer.hpp has the
// contract of each). Most calls are forwarded to the body.
template <class B, class Body>
struct preactivation_node {
  using number = typename B::number;
  // Its own backward writes no gradient of parameters, frozen or not.
  static constexpr bool skips_frozen_gradients = Body::skips_frozen_gradients;

  Body body;
  extent at;
  std::size_t activation;

  void pack_parameters(const pack_pass<B>& pass) const { body.pack_parameters(pass); }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    const number* const z = body.forward(pass, x);
    number* const y = pass.buffer_for(activation, B::numbers(at));
    for_each(pass.s, static_cast<std::size_t>(pass.samples) * B::numbers(at),
             [=](std::size_t i) { y[i] = x[i] + z[i]; });
    return y;
  }
  // dy reaches both summands: the body gets a copy, and adds its dx to the shortcut's.
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> to,
                   Ready& ready) {
    number* const dz = pass.gradients->acquire();
    for_each(pass.s, static_cast<std::size_t>(pass.samples) * B::numbers(at),
             [=](std::size_t i) { dz[i] = dy[i]; });
    number* const dx = body.backward(pass, dz, {.accumulate_into = dy}, ready);
    return pass.route_input_gradient(at, dx, to);
  }
};

// A layer states its output extent and its parameters, and binds to an input extent.
template <int Channels>
struct preactivation {
  using body =
      sequential<batch_norm<relu>, convolution<Channels>, batch_norm<relu>, convolution<Channels>>;

  static constexpr extent out(const extent& in) { return body::out(in); }
  static constexpr void describe(const extent& in, parameter_registry& to) {
    const auto mark = to.enter_block();  // names: layer1.0.conv1.weight, …
    body::describe(in, to);
    to.leave(mark);
  }

  template <class B, extent In>
  static auto bind(layout_builder& to) {
    static_assert(
        body::out(In) == In,
        "preactivation: input and output extents must be equal; change them between blocks");
    const auto inner = body::template bind<B, In>(to);
    return preactivation_node<B, std::remove_const_t<decltype(inner)>>{
        inner, In, to.add_activation(sizeof(typename B::number) * B::numbers(In))};
  }
};

template <int Classes>
using layers = sequential<convolution<16>, stage<repeat<2, preactivation<16>>>,  //
                          convolution<32, 3, 2>, stage<repeat<2, preactivation<32>>>,
                          batch_norm<relu>, global_average_pool, linear<Classes>>;

// The same layers in double precision, on eight samples of noise.
void check() {
  using net_type = network<layers<3>, fp64, cpu, direct, extent{1, 6, 6}, 3>;
  const synthetic data{.extent = net_type::input, .classes = 3, .samples = 8};
  loader feed{data, self_comm{}, {.global_batch = 8}};
  const batch<cpu> samples = feed.next()[0];

  net_type net{cpu(1)};
  arena<double, cpu> memory(net.get_device(), net_type::segments(), 2);
  const auto weights = memory.plane(0), gradients = memory.plane(1);
  net.initialize(weights, 1);
  auto packed = net.make_packed_parameters();
  const cpu::stream s = net.get_device().make_stream();
  const auto loss = [&] {
    net.pack_parameters(weights, packed, s);
    net.forward(packed, weights, samples, phase::train, s);
    return net.read_metrics(s).mean_loss();
  };
  loss();
  net.backward(
      packed, gradients, write_mode::overwrite, [](std::size_t) {}, s);
  double worst = 0;
  for (const segment& tensor : net_type::segments().first(net_type::tensors())) {
    const std::span<double> at = weights.subspan(tensor.offset, tensor.size);
    const std::span<const double> g = gradients.subspan(tensor.offset, tensor.size);
    worst = std::max(worst, check_direction(at, g, normal_numbers(tensor.size, 1), loss).max_error);
  }
  if (!(worst < 1e-5))
    throw error(concat("the gradient and finite differences of the loss differ by ", worst));
  std::printf("the gradients of %zu tensors agree with finite differences to %s\n",
              net_type::tensors(), decimal::scientific(worst, 1).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_block: a residual block of your own, trained briefly");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 2, "ranks in this process");
    const int global = o.positive("batch", 128, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 1, "passes over 9,000 images");
    const double learning_rate = o.number("learning-rate", 0.1, "peak learning rate");
    const std::uint64_t seed = o.seed();
    const bool only_check =
        o.flag("check", "compare gradients with finite differences, train nothing");
    o.done();
    if (only_check) return check();

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      network<layers<10>, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{training,
                  comm,
                  {.global_batch = global, .seed = seed},
                  {},
                  normalize::measured(training)};
      trainer run{net,
                  sgd{.momentum = 0.9},
                  cosine{.peak = learning_rate, .epochs = epochs},
                  ring{comm},
                  {.seed = seed}};
      const auto done = run.fit(feed, epochs, validation{held_out}, console{});
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                    static_cast<long long>(done.last.validation->count));
    });
  });
}
