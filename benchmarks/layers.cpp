// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The errors, against fp64 on the CPU, of each distinct layer of ResNet-20 and ResNet-50, and of
// logits, loss and gradient of a whole step (first_step.hpp), by the GPU's default engine; of each
// convolution and the classifier by `tensor_core` too, and of its byte convolutions against
// integers. Prints a line of JSON each; the exit status is 0 if all are within their bars. The
// device is the one that the program is compiled for; without a GPU, the CPU and an emulated GPU
// check the program.
#include "benchmarks/layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "benchmarks/first_step.hpp"
#include "examples/options.hpp"

#if !defined(__CUDACC__)
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>

#include "tests/support/emulated.hpp"
#endif

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct plan {
  int net, samples;
  std::string device = "cuda";
  bool all_within = true;
};

template <Precision P, class Engine>
void report(plan& p, const std::string& layer, std::string_view errors, bool within,
            double bar = bench::bar<P>) {
  if (!within) p.all_within = false;
  std::printf(
      "{\"net\": %d, \"layer\": \"%s\", \"engine\": \"%s\", \"precision\": \"%s\", %s, \"bar\": "
      "%g, "
      "\"within\": %s}\n",
      p.net, layer.c_str(), std::string(Engine::name).c_str(), std::string(P::name).c_str(),
      std::string(errors).c_str(), bar, within ? "true" : "false");
  std::fflush(stdout);
}

template <Precision P, class Engine, class L, extent In, class D>
void layer(plan& p, const D& device, const std::string& name) {
  const auto e = bench::errors_of<L, In, P, Engine>(device, p.samples);
  report<P, Engine>(p, name,
                    concat("\"y\": ", e.y, ", \"dx\": ", e.dx, ", \"parameters\": ", e.parameters),
                    std::max({e.y, e.dx, e.parameters}) <= bench::bar<P>);
}

/// The loss at the network's own number of classes.
template <Precision P, class Engine, class D>
void loss(plan& p, const D& device, int classes) {
  using number = typename P::storage;
  const auto n = static_cast<std::size_t>(p.samples) * static_cast<std::size_t>(classes);
  const bench::doubles z = support::representable_normals<number>(n, 3);
  bench::doubles exact_gradient(n);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(p.samples));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(i * 7) % classes;
  const cross_entropy entropy{.label_smoothing = 0.1};
  const double loss_weight = 1024;  // scaled, so that fp16 holds small gradients
  const metrics exact =
      batch_loss(entropy, classes, p.samples, z.data(), batch_targets{labels.data()}, loss_weight,
                 exact_gradient.data(), cpu::stream{});

  const auto s = device.make_stream();
  support::device_vector<number, D> logits(device, s, support::to_storage<number>(z)),
      gradient(device, s, std::vector<number>(n));
  support::device_vector<std::int32_t, D> device_labels(device, s, labels);
  const batch_targets device_targets{device_labels.data()};
  double value = 0;
  if constexpr (D::host_memory) {
    value = batch_loss(entropy, classes, p.samples, logits.data(), device_targets, loss_weight,
                       gradient.data(), s)
                .loss;
  } else {
    support::device_vector<metric_sums, D> sums(device, s, std::vector<metric_sums>(1));
    batch_loss(entropy, classes, p.samples, static_cast<const number*>(logits.data()),
               device_targets, loss_weight, nullptr, gradient.data(), sums.data(), s);
    value = checked_metrics(sums.read()[0], classes).loss;
  }
  const double y = bench::finite_error(std::abs(value / exact.loss - 1));
  const double dx = bench::relative_error(support::to_doubles(gradient.read()), exact_gradient);
  report<P, Engine>(p, concat("softmax loss of ", classes), concat("\"y\": ", y, ", \"dx\": ", dx),
                    std::max(y, dx) <= bench::bar<P>);
}

/// The gradient of a whole step has a loose bar: after twenty layers rounding moves a few ReLUs
/// across zero, and after fifty the directions have little in common, but not the lengths (two
/// orthogonal vectors of equal length differ by 1.41).
template <Precision P, class Net, class Exact, class D>
void step(plan& p, const D& device) {
  const auto first = bench::first_step::draw<Net, P>(p.samples);
  const auto tested = bench::step_of<Net>(device, first);
  const auto exact = bench::step_of<Exact>(cpu{}, first);
  constexpr double roundoff = bench::step_roundoff<P>;
  const bench::rounding_gain gain = bench::gain_of(p.net);
  const double y = bench::finite_error(std::abs(tested.loss / exact.loss - 1)),
               logits = bench::relative_error(tested.logits, exact.logits),
               gradient = bench::relative_error(tested.gradient, exact.gradient),
               logits_bar = 1.5 * gain.most * roundoff,
               bar = 4 * first.loss_deviation(exact.logits, gain.median * roundoff);
  report<P, typename Net::engine>(
      p, concat("a step of ResNet-", p.net),
      concat("\"y\": ", y, ", \"logits\": ", logits, ", \"logits_bar\": ", logits_bar,
             ", \"gradient\": ", gradient),
      y <= bar && logits <= logits_bar && gradient <= 2, bar);
}

template <Precision P, class Engine, class D, int Depth, resnet_options Of = resnet_options{}>
void check_net(plan& p, const D& device) {
  if (p.net != Depth) return;
  using net = resnet<Depth, P, D, Of, Engine>;
  bench::each_layer<net>([&]<class L, extent In>(const std::string& name) {
    layer<P, Engine, L, In>(p, device, name);
  });
  loss<P, Engine>(p, device, net::classes);
  step<P, net, resnet<Depth, fp64, cpu, Of, reference>>(p, device);
}

/// Convolutions, and the classifier that is one: the other layers are the same with every engine.
template <class D, int Depth, resnet_options Of = resnet_options{}>
void check_tensor_cores(plan& p, const D& device) {
  if (p.net != Depth) return;
  bench::each_layer<resnet<Depth, fp64, cpu, Of, reference>>(
      [&]<class L, extent In>(const std::string& name) {
        if constexpr (bench::is_convolution<L>) {
          layer<fp16, tensor_core, L, In>(p, device, name);
          layer<bf16, tensor_core, L, In>(p, device, name);
          const double y = bench::byte_error<tensor_core>(device, L::problem(In), p.samples);
          report<int8, tensor_core>(p, name, concat("\"y\": ", y), y <= bench::bar<int8>);
        } else if constexpr (bench::is_flat<L>) {
          layer<fp16, tensor_core, L, In>(p, device, name);
          layer<bf16, tensor_core, L, In>(p, device, name);
        }
      });
}

/// Calls f.operator()<depth, options>() for every network.
template <class F>
void for_each_net(const F& f) {
  f.template operator()<8, resnet_options{.image = {3, 8, 8}}>();
  f.template operator()<20, resnet_options{}>();
#if defined(__CUDACC__)  // takes too long to compile and to run elsewhere
  f.template operator()<50, resnet_options{}>();
#endif
}
template <Precision P, class Engine, class D>
void check(plan& p, const D& device) {
  for_each_net(
      [&]<int Depth, resnet_options Of> { check_net<P, Engine, D, Depth, Of>(p, device); });
}
template <class D>
void check_tensor_cores(plan& p, const D& device) {
  for_each_net([&]<int Depth, resnet_options Of> { check_tensor_cores<D, Depth, Of>(p, device); });
}

void run(plan& p) {
#if defined(__CUDACC__)
  using engine = engine_for<gpu, fp32>::type;
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
    examples::options o(argc, argv, "layers: the error of each layer against fp64");
    p.net = o.whole("net", 8, "the ResNet: 20, 50 (on a GPU), or 8 on images of 8x8");
    p.samples = o.whole("batch", 2, "samples");
#if !defined(__CUDACC__)
    p.device = o.string("device", "cpu", "cpu (in fp32) or emulated");
#endif
    o.done();
    expects(p.net == 8 || p.net == 20 || (p.net == 50 && p.device == "cuda"),
            "layers: --net is 8 or 20, on a GPU also 50");
    expects(p.device == "cpu" || p.device == "emulated" || p.device == "cuda",
            "layers: --device is cpu or emulated");
    expects(p.samples > 0, "layers: --batch is at least 1");
    run(p);
  });
  return p.all_within ? status : EXIT_FAILURE;
}
