// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far each distinct layer of ResNet-20 and ResNet-50, and the gradient of a whole step, are
// from fp64 on the CPU, by the engine that is a GPU's own, and each convolution by `wmma` too, its
// bytes beside integers: a line of JSON each, and an exit status that says whether all keep their
// bar. The device is the one that the program was compiled for; without a GPU, the CPU itself and a
// GPU that is emulated check the program.
#include "benchmarks/layers.hpp"

#include <cstdio>

#include "examples/options.hpp"

#if !defined(__CUDACC__)
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/emulated.hpp"
#endif

using namespace cordee;

namespace {

struct plan {
  int net, samples;
  std::string device = "cuda";
  bool all_within = true;
};

template <Precision P, class Engine>
void judge(plan& p, const std::string& layer, std::string_view numbers, double worst) {
  const bool within = worst <= bench::bar<P>;
  if (!within) p.all_within = false;
  std::printf(
      "{\"net\": %d, \"layer\": \"%s\", \"engine\": \"%s\", \"precision\": \"%s\", %s, \"bar\": "
      "%g, "
      "\"within\": %s}\n",
      p.net, layer.c_str(), std::string(Engine::name).c_str(), std::string(P::name).c_str(),
      std::string(numbers).c_str(), bench::bar<P>, within ? "true" : "false");
  std::fflush(stdout);
}

template <Precision P, class Engine, class L, extent In, class D>
void layer(plan& p, const D& where, const std::string& name) {
  const auto e = bench::errors_of<L, In, P, Engine>(where, p.samples);
  judge<P, Engine>(p, name,
                   text("\"y\": ", e.y, ", \"dx\": ", e.dx, ", \"parameters\": ", e.parameters),
                   std::max({e.y, e.dx, e.parameters}));
}

/// The loss at the network's own number of classes.
template <Precision P, class Engine, class D>
void loss(plan& p, const D& where, int classes) {
  using number = typename P::storage;
  const auto n = static_cast<std::size_t>(p.samples) * static_cast<std::size_t>(classes);
  const bench::doubles z = support::held<number>(n, 3);
  bench::doubles slope(n);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(p.samples));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(i * 7) % classes;
  const double smoothing = 0.1, seed = 1024;  // a scaled loss, so that fp16 holds small slopes
  const score right = softmax_loss(classes, p.samples, z.data(), labels.data(), smoothing, seed,
                                   slope.data(), cpu::stream{});

  const auto s = where.open();
  support::remote<number, D> logits(where, s, support::converted<number>(z)),
      found(where, s, std::vector<number>(n));
  support::remote<std::int32_t, D> classes_of(where, s, labels);
  double value = 0;
  if constexpr (D::host_memory) {
    value = softmax_loss(classes, p.samples, logits.data(), classes_of.data(), smoothing, seed,
                         found.data(), s)
                .loss;
  } else {
    support::remote<score_sums, D> sums(where, s, std::vector<score_sums>(1));
    softmax_loss(classes, p.samples, static_cast<const number*>(logits.data()), classes_of.data(),
                 smoothing, seed, nullptr, found.data(), sums.data(), s);
    value = checked(sums.read()[0], classes).loss;
  }
  const double y = bench::settled(std::abs(value / right.loss - 1));
  const double dx = bench::relative_error(support::converted_back(found.read()), slope);
  judge<P, Engine>(p, text("softmax loss of ", classes), text("\"y\": ", y, ", \"dx\": ", dx),
                   std::max(y, dx));
}

/// Loss and gradient of one step's forward and backward, from given weights.
struct stepped {
  double loss;
  bench::doubles gradient;
};
template <class Net, class D>
stepped step_of(const D& where, const bench::doubles& first, const batch<cpu>& images) {
  using real = typename Net::precision::master;
  Net net(where);
  const auto s = where.open();
  buffer<real, D> weights(where, first.size()), gradient(where, first.size());
  const auto rounded = support::converted<real>(first);
  where.copy(weights.span().data, rounded.data(), rounded.size() * sizeof(real), s);
  auto image = net.make_image();
  net.publish(weights.span(), image, s);
  upload<D> there(where);
  net.forward(image, weights.span(), there.to({&images, 1}, s).front(), phase::train, s);
  const double loss = net.read_score(s).mean_loss();
  net.backward(
      image, gradient.span(), into::overwrite, [](std::size_t) {}, s);
  return {loss,
          support::converted_back(on_host<real, D>(where, std::as_const(gradient).span(), s))};
}

/// A whole step's gradient has no bar: behind twenty layers a few ReLUs open where others close.
template <Precision P, class Net, class Exact, class D>
void step(plan& p, const D& where) {
  constexpr auto at = bench::around<typename Net::layers, Net::input>();
  const bench::doubles first = bench::first_plane<typename P::storage>(at);
  random_sequence random(1, purpose::synthetic, 0, 0);
  const auto n = static_cast<std::size_t>(p.samples);
  std::vector<std::uint8_t> pixels(n * Net::input.size());
  for (std::uint8_t& one : pixels) one = static_cast<std::uint8_t>(random.below(256));
  std::vector<std::int32_t> labels(n);
  for (std::int32_t& one : labels) one = static_cast<std::int32_t>(random.below(Net::classes));
  const batch<cpu> images{{pixels.data(), pixels.size()},
                          {labels.data(), n},
                          p.samples,
                          p.samples,
                          1,
                          normalise{{.5, .5, .5}, {.25, .25, .25}},
                          std::same_as<P, fp16> ? 1024.0 : 1.0};

  const auto found = step_of<Net>(where, first, images);
  const auto right = step_of<Exact>(cpu{}, first, images);
  const double y = bench::settled(std::abs(found.loss / right.loss - 1));
  judge<P, typename Net::engine>(
      p, text("a step of ResNet-", p.net),
      text("\"y\": ", y, ", \"gradient\": ", bench::relative_error(found.gradient, right.gradient)),
      y);
}

template <Precision P, class Engine, class D, int Depth, shape Of = shape{}>
void check_net(plan& p, const D& where) {
  if (p.net != Depth) return;
  using net = resnet<Depth, P, D, Of, Engine>;
  bench::each_layer<net>([&]<class L, extent In>(const std::string& name) {
    layer<P, Engine, L, In>(p, where, name);
  });
  loss<P, Engine>(p, where, net::classes);
  step<P, net, resnet<Depth, fp64, cpu, Of, reference>>(p, where);
}

/// Convolutions alone: what lies between them is the same by every engine.
template <class D, int Depth, shape Of = shape{}>
void check_tensor_cores(plan& p, const D& where) {
  if (p.net != Depth) return;
  bench::each_layer<resnet<Depth, fp64, cpu, Of, reference>>(
      [&]<class L, extent In>(const std::string& name) {
        if constexpr (bench::is_convolution<L>) {
          layer<fp16, wmma, L, In>(p, where, name);
          layer<bf16, wmma, L, In>(p, where, name);
          const double y = bench::byte_error<wmma>(where, L::problem(In), p.samples);
          judge<int8, wmma>(p, name, text("\"y\": ", y), y);
        }
      });
}

/// f.operator()<depth, shape>() of every network that there is.
template <class F>
void each_net(const F& f) {
  f.template operator()<8, shape{.image = {3, 8, 8}}>();
  f.template operator()<20, shape{}>();
#if defined(__CUDACC__)  // too much to compile, and to wait for, elsewhere
  f.template operator()<50, shape{}>();
#endif
}
template <Precision P, class Engine, class D>
void check(plan& p, const D& where) {
  each_net([&]<int Depth, shape Of> { check_net<P, Engine, D, Depth, Of>(p, where); });
}
template <class D>
void check_tensor_cores(plan& p, const D& where) {
  each_net([&]<int Depth, shape Of> { check_tensor_cores<D, Depth, Of>(p, where); });
}

void run(plan& p) {
#if defined(__CUDACC__)
  using engine = usual_engine<gpu>::type;
  check<fp16, engine>(p, gpu{});
  check<bf16, engine>(p, gpu{});
  check<fp32, engine>(p, gpu{});
  check_tensor_cores(p, gpu{});
#else
  if (p.device == "cpu") return check<fp32, direct>(p, cpu{});
  check<fp16, reference>(p, support::emulated{});
  check<bf16, reference>(p, support::emulated{});
  check<fp32, reference>(p, support::emulated{});
  check_tensor_cores(p, support::emulated{});
#endif
}

}  // namespace

int main(int argc, char** argv) {
  plan p;
  const int status = examples::run([&] {
    examples::options o(argc, argv, "layers: each layer's distance from fp64");
    p.net = o.whole("net", 8, "whose layers: 20, 50 (on a GPU), or 8 on images of 8x8");
    p.samples = o.whole("batch", 2, "samples");
#if !defined(__CUDACC__)
    p.device = o.text("device", "cpu", "cpu (in fp32) or emulated");
#endif
    o.done();
    expects(p.net == 8 || p.net == 20 || (p.net == 50 && p.device == "cuda"),
            "layers: --net is 8 or 20, on a GPU also 50");
    expects(p.device == "cpu" || p.device == "emulated" || p.device == "cuda",
            "layers: --device is cpu or emulated");
    expects(p.samples > 0, "layers: --batch is a sample at least");
    run(p);
  });
  return p.all_within ? status : EXIT_FAILURE;
}
