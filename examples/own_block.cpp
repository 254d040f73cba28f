// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A block of your own, made of the library's layers: the residual block with its norms and ReLUs
// before the convolutions (He et al., 2016b), y = x + body(x). It trains for a moment, and --check
// compares its gradients with differences of the loss.
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/gradient.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// A layer at work publishes, and goes forward and backward (nn/layer.hpp says what each owes). Most
// of it is handed on to the body.
template <class B, class Body>
struct preactivation_node {
  using number = typename B::number;

  Body body;
  extent at;
  std::size_t activation;

  void publish(const publish_pass<B>& pass) const { body.publish(pass); }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    const number* const z = body.forward(pass, x);
    number* const y = pass.room(activation, B::numbers(at));
    for_each(pass.s, static_cast<std::size_t>(pass.samples) * B::numbers(at),
             [=](std::size_t i) { y[i] = x[i] + z[i]; });
    return y;
  }
  // The sum hands dy to both: the body gets a copy, and adds what it has onto the shortcut's.
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    number* const dz = pass.gradients->take();
    for_each(pass.s, static_cast<std::size_t>(pass.samples) * B::numbers(at),
             [=](std::size_t i) { dz[i] = dy[i]; });
    number* const dx = body.backward(pass, dz, {.onto = dy}, ready);
    return deliver(pass, at, dx, to);
  }
};

// A layer says what comes out and which parameters it has, and binds to an input.
template <int Channels>
struct preactivation {
  using body =
      sequential<batch_norm<relu>, convolution<Channels>, batch_norm<relu>, convolution<Channels>>;

  static constexpr extent out(const extent& in) { return body::out(in); }
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.block();  // the parameters are called layer1.0.conv1.weight, …
    body::describe(in, to);
    to.back(mark);
  }

  template <class B, extent In>
  static auto bind(placement& to) {
    static_assert(body::out(In) == In,
                  "a preactivation keeps the extent: change it between blocks");
    return preactivation_node<B, node_of<body, B, In>>{body::template bind<B, In>(to), In,
                                                       to.activation++};
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
  loader feed{data, alone{}, {.global_batch = 8}};
  const batch<cpu> all = feed.next()[0];

  net_type net{cpu(1)};
  arena<double, cpu> memory(net.where(), net_type::segments(), 2);
  const auto weights = memory.plane(0), gradients = memory.plane(1);
  net.initialise(weights, 1);
  auto image = net.make_image();
  const cpu::stream s = net.where().open();
  const auto loss = [&] {
    net.publish(weights, image, s);
    net.forward(image, weights, all, phase::train, s);
    return net.read_score(s).mean_loss();
  };
  loss();
  net.backward(
      image, gradients, into::overwrite, [](std::size_t) {}, s);
  double worst = 0;
  for (const segment& one : net_type::segments().first(net_type::tensors())) {
    const std::span<double> at = weights.subspan(one.offset, one.size);
    const std::span<const double> g = gradients.subspan(one.offset, one.size);
    worst = std::max(worst, check_direction(at, g, normal_numbers(one.size, 1), loss).worst);
  }
  if (!(worst < 1e-5))
    throw error(text("the gradient is not the derivative of the loss: they differ by ", worst));
  std::printf("the gradients of %zu tensors agree with differences to %.1e\n", net_type::tensors(),
              worst);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "own_block: a residual block of your own, trained for a moment");
    const std::string at = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                  "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.whole("ranks", 2, "workers in this process");
    const int global = o.whole("batch", 128, "samples of one update, over all workers");
    const double epochs = o.number("epochs", 1, "passes over 9,000 images");
    const double rate = o.number("rate", 0.1, "peak rate");
    const bool only_check = o.flag("check", "compare gradients with differences, train nothing");
    o.done();
    if (only_check) return check();

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held = held](threads link) {
      network<layers<10>, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{
          training, link, {.global_batch = global, .seed = 1}, {}, normalise::measured(training)};
      trainer run{net, sgd{.momentum = 0.9}, cosine{.peak = rate, .epochs = epochs}, ring{link}};
      const auto done = run.fit(feed, epochs, held_out{held}, console{});
      if (link.rank() == 0)
        std::printf("held-out accuracy %.1f %% of %lld images\n",
                    100 * done.last.held_out->accuracy(),
                    static_cast<long long>(done.last.held_out->count));
    });
  });
}
