// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The gradients of one step with fused batch norms, held to a bar that is derived as those of
// logits and losses are (benchmarks/first_step.hpp):
//
//   |g - g'| / |g'|  <=  1.5 G_most u     u: roundoff of fp16
//
// with exact gradients g' in fp64, and G_most u the largest error, over seeds, of a step in exact
// arithmetic that rounds only what must be stored: images, weights, the outputs of convolutions,
// norms and pools, their gradients, and those of weights. (Not of logits.)
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/device_vectors.hpp"
#include "tests/support/fused_run.hpp"

using namespace cordee;
using namespace support;

namespace {

using doubles = std::vector<double>;

double as_stored(double x) { return half::nearest(static_cast<float>(x)).exact(); }

/// Numbers that are stored in fp16 between layers, and their gradients.
template <class B>
struct in_storage_node {
  static_assert(std::is_same_v<typename B::number, double>);
  static constexpr bool skips_frozen_gradients = true;

  extent at;
  std::size_t activation;

  void pack_parameters(const pack_pass<B>&) const {}
  const double* forward(const forward_pass<B>& pass, const double* x) {
    double* const y = pass.buffer_for(activation, B::numbers(at));
    const std::size_t n = static_cast<std::size_t>(pass.samples) * B::numbers(at);
    for (std::size_t i = 0; i < n; ++i) y[i] = as_stored(x[i]);
    return y;
  }
  template <class Ready>
  double* backward(const backward_pass<B>& pass, double* dy, gradient_target<double> target,
                   Ready&) {
    const std::size_t n = static_cast<std::size_t>(pass.samples) * B::numbers(at);
    for (std::size_t i = 0; i < n; ++i) dy[i] = as_stored(dy[i]);
    return pass.route_input_gradient(at, dy, target);
  }
};
struct in_storage {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, parameter_registry&) {}
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    layout.note_activation_size(B::numbers(In));
    return in_storage_node<B>{In, layout.add_activation(sizeof(double) * B::numbers(In))};
  }
};

template <int Width, class Shortcut>
using block_of_three =
    residual<sequential<convolution<Width, 1>, batch_norm<relu>, convolution<Width, 3>,
                        batch_norm<relu>, convolution<4 * Width, 1>>,
             batch_norm<>, Shortcut>;
using three_blocks = sequential<convolution<16, 7, 2>, batch_norm<relu>, max_pool<3, 2>,
                                block_of_three<8, projection<32, 1>>, block_of_three<8, identity>,
                                block_of_three<8, identity>, global_average_pool, linear<10>>;

template <int Width, class Shortcut>
using stored_block =
    sequential<residual<sequential<convolution<Width, 1>, in_storage, batch_norm<relu>, in_storage,
                                   convolution<Width, 3>, in_storage, batch_norm<relu>, in_storage,
                                   convolution<4 * Width, 1>, in_storage>,
                        batch_norm<>, Shortcut>,
               in_storage>;
using stored_projection =
    sequential<in_storage, convolution<32, 1, 1>, in_storage, batch_norm<>, in_storage>;
using stored_blocks =
    sequential<in_storage, convolution<16, 7, 2>, in_storage, batch_norm<relu>, max_pool<3, 2>,
               in_storage, stored_block<8, stored_projection>, stored_block<8, identity>,
               stored_block<8, identity>, global_average_pool, in_storage, linear<10>>;

constexpr extent image{3, 16, 16};
template <class Layers>
using exact_network = network<Layers, fp64, cpu, direct, image, 10>;
template <class Engine>
using half_network = network<three_blocks, fp16, host_cuda, Engine, image, 10>;

constexpr int samples = 6;
constexpr double loss_scale = 1024, roundoff_of_half = 0x1p-11;

/// Weights, as fp16 holds them, and images by seed.
struct drawn_step {
  std::vector<float> plane;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  explicit drawn_step(std::uint64_t seed)
      : plane(exact_network<three_blocks>::plane_size()),
        pixels(samples * image.size()),
        labels(samples) {
    using net_type = exact_network<three_blocks>;
    doubles initial(plane.size());
    net_type{cpu{}}.initialize({initial.data(), initial.size()}, seed);
    for (std::size_t i = 0; i < plane.size(); ++i)
      plane[i] = static_cast<float>(as_stored(initial[i]));
    random_sequence random(1 + seed, purpose::synthetic, 0, 0);
    for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(10));
  }
  /// The gradients of Net.
  template <class Net>
  [[nodiscard]] doubles gradients() const {
    using device_type = typename Net::device;
    using real = typename Net::precision::master;
    const device_type device;
    Net net{device};
    const auto s = device.make_stream();
    const std::vector<real> masters(plane.begin(), plane.end());
    buffer<real, device_type> weights(device, plane.size()), gradient(device, plane.size());
    device.copy(weights.span().data, masters.data(), masters.size() * sizeof(real), s);
    auto packed = net.make_packed_parameters();
    net.pack_parameters(weights.span(), packed, s);
    const batch<cpu> images{{pixels.data(), pixels.size()},
                            {labels.data(), labels.size()},
                            samples,
                            samples,
                            1,
                            normalize{{.5, .5, .5}, {.25, .25, .25}},
                            loss_scale};
    upload<device_type> uploads(device);
    net.forward(packed, weights.span(), uploads.to({&images, 1}, s).front(), phase::train, s);
    net.backward(
        packed, gradient.span(), write_mode::overwrite, [](std::size_t) {}, s);
    const auto host = copy_to_host<real, device_type>(device, std::as_const(gradient).span(), s);
    doubles out(host.begin(), host.end());
    for (const segment& tensor : Net::segments()) {
      if (tensor.kind != kind::weight) continue;
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
        out[i] = as_stored(out[i]);  // by the fp16 network it is
    }
    return out;
  }
};

double error_of(const doubles& a, const doubles& exact) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += (a[i] - exact[i]) * (a[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm) / roundoff_of_half;
}

}  // namespace

TEST_CASE("cudnn: one step's gradients are as near to exact ones as what is stored allows") {
  std::vector<double> rounded, fused, plain;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const drawn_step step(seed);
    const doubles exact = step.gradients<exact_network<three_blocks>>();
    rounded.push_back(error_of(step.gradients<exact_network<stored_blocks>>(), exact));
    begin_double();
    fused.push_back(error_of(step.gradients<half_network<fusing_cudnn>>(), exact));
    CHECK(host_state().fused > 0);
    plain.push_back(error_of(step.gradients<half_network<plain_cudnn>>(), exact));
    CAPTURE(rounded.back());
    CAPTURE(plain.back());
    CAPTURE(fused.back());
    CHECK(rounded.back() > 1);
  }
  const double bar = 1.5 * *std::ranges::max_element(rounded);
  INFO("bar ", bar, " roundoffs of fp16");
  for (const double error : fused) CHECK(error <= bar);
  for (const double error : plain) CHECK(error <= bar);
}
