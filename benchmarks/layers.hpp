// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every layer of a network by itself, on a device, compared with its definition in fp64 on the CPU.
//
//   error = |a - b| / |b|   of outputs a and exact ones b of the same inputs,
//                           which the precision holds
//
// A convolution of bytes computes exactly the integers of its definition. A ReLU's backward uses
// the device's outputs on both sides, since rounding may move a number across zero.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/each_layer.hpp"
#include "tests/support/device_vectors.hpp"

namespace bench {

using namespace cordee;
using doubles = std::vector<double>;

/// The error; 1e300, which JSON can hold and which is above any bar, where it is not finite.
inline double finite_error(double error) { return std::isfinite(error) ? error : 1e300; }

inline double relative_error(const doubles& a, const doubles& b) {
  expects(a.size() == b.size(), "relative_error: vectors of different sizes");
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return error == 0 ? 0 : finite_error(std::sqrt(error / norm));
}

/// The largest relative error allowed of a layer.
template <Precision P>
inline constexpr double bar = std::same_as<P, fp16>   ? 1e-3
                              : std::same_as<P, bf16> ? 1e-2
                              : std::same_as<P, fp32> ? 1e-5
                              : Quantized<P>          ? 0
                                                      : 1e-12;

/// The properties of a layer that its node does not have.
struct layer_properties {
  extent in, out;
  bool flat;  // outputs are not in blocks: a classifier's
  std::span<const segment> table;
  std::span<const detail::nn::initializer> begin;
  std::size_t trainable, plane_size;
};
template <class L>
inline constexpr bool is_flat = false;
template <int C>
inline constexpr bool is_flat<linear<C>> = true;
template <class L, extent In>
constexpr layer_properties properties_of() {
  constexpr auto t = [] {
    parameter_registry count;
    L::describe(In, count);
    return count.sum();
  }();
  layer_properties at{
      In, L::out(In), is_flat<L>, {}, {}, t.trainable, t.trainable_end + t.statistics_end};
  if constexpr (t.trainable > 0) {
    at.table = detail::nn::parameter_table<L, In>::segments;
    at.begin = detail::nn::parameter_table<L, In>::initializers;
  }
  return at;
}

/// A layer's node on its device, from and to doubles in NCHW. Instantiated once per kind of layer.
template <class B, class Node>
class layer_fixture {
  using number = typename B::number;
  using real = typename B::real;
  using D = typename B::device;

 public:
  layer_fixture(const D& device, const Node& node, const layout_builder& to,
                const layer_properties& at, int samples, const doubles& plane)
      : device_(device),
        node_(node),
        at_(at),
        samples_(samples),
        largest_(to.largest_activation),
        plane_(device, s_, support::to_storage<real>(plane)),
        gradients_(device, at.plane_size),
        packed_(device, to.packed_size),
        store_(device, to.activations) {
    node_.pack_parameters(pack_pass<B>{plane_.data(), packed_.span().data, device_, s_});
  }

  doubles forward(const doubles& x) {
    x_.emplace_back(device_, s_, to_blocks(x, at_.in, block_in()));
    const forward_pass<B> pass{
        packed_.span().data, plane_.data(), samples_, phase::train, {}, &store_, &scratch_, s_};
    y_ = node_.forward(pass, x_.back().data());
    return to_host(y_, at_.out, block_out());
  }
  /// Replaces the outputs that forward saved for backward.
  void set_outputs(const doubles& y) {
    const auto blocks = to_blocks(y, at_.out, block_out());
    device_.copy(const_cast<number*>(y_), blocks.data(), blocks.size() * sizeof(number), s_);
    device_.finish(s_);
  }
  doubles backward(const doubles& dy) {
    pool_.begin_backward(nullptr, 0);
    free_ = {pool_, static_cast<std::size_t>(samples_) * largest_};
    number* const gradient = free_.acquire();
    const auto blocks = to_blocks(dy, at_.out, block_out());
    device_.copy(gradient, blocks.data(), blocks.size() * sizeof(number), s_);
    const backward_pass<B> pass{packed_.span().data,
                                gradients_.span().data,
                                write_mode::overwrite,
                                samples_,
                                {},
                                &free_,
                                &scratch_,
                                &workspace_,
                                s_};
    auto ready = [](std::size_t) {};
    return to_host(node_.backward(pass, gradient, gradient_target<number>{}, ready), at_.in,
                   block_in());
  }
  /// The gradient of one tensor, after backward.
  [[nodiscard]] doubles gradient(const segment& tensor) const {
    const auto all = copy_to_host<real, D>(device_, gradients_.span(), s_);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    return {first, first + static_cast<std::ptrdiff_t>(tensor.size)};
  }

 private:
  [[nodiscard]] int block_in() const { return B::block(at_.in.channels); }
  [[nodiscard]] int block_out() const { return at_.flat ? 1 : B::block(at_.out.channels); }
  static std::vector<number> to_blocks(const doubles& x, const extent& e, int block) {
    return support::to_storage<number>(support::to_blocked(x, e, block));
  }
  doubles to_host(const number* from, const extent& e, int block) const {
    std::vector<number> host(static_cast<std::size_t>(samples_) *
                             detail::ops::sample_size(e, block));
    device_.copy(host.data(), from, host.size() * sizeof(number), s_);
    device_.finish(s_);
    return support::from_blocked(support::to_doubles(host), e, block);
  }

  D device_;
  Node node_;
  layer_properties at_;
  int samples_;
  std::size_t largest_;
  typename B::stream s_ = device_.make_stream();
  support::device_vector<real, D> plane_;
  buffer<real, D> gradients_;
  buffer<std::byte, D> packed_;
  std::vector<support::device_vector<number, D>> x_;
  detail::nn::activations<D> store_;
  buffer<double, D> scratch_{device_, 0};
  detail::nn::activations<D> pool_{device_, 0};
  detail::nn::gradient_buffers<number, D> free_{pool_, 0};
  buffer<number, D> workspace_{device_, 0};
  const number* y_ = nullptr;
};

struct layer_errors {
  double y = 0, dx = 0, parameters = 0;  // parameters: the largest over their gradients
};

/// Initial weights that N holds exactly, random too where the initializer is zero.
template <Number N>
doubles initial_plane(const layer_properties& at, int seed = 0) {
  doubles plane(at.plane_size);
  for (std::size_t k = 0; k < at.trainable; ++k) {
    const segment& s = at.table[k];
    const double deviation = at.begin[k].variance > 0 ? std::sqrt(at.begin[k].variance) : 0.25;
    const doubles draw = normal_numbers(s.size, 1000 * static_cast<std::uint64_t>(seed) + 10 + k);
    for (std::size_t i = 0; i < s.size; ++i)
      plane[s.offset + i] = support::to_double(
          support::nearest<N>((s.kind == kind::scale ? 1 : 0) + deviation * draw[i]));
  }
  return plane;
}

template <class B, class Node, class Exact>
layer_errors compare(layer_fixture<B, Node>& tested, Exact& exact, const layer_properties& at,
                     int samples) {
  using number = typename B::number;
  const auto n = static_cast<std::size_t>(samples);
  const doubles x = support::representable_normals<number>(n * at.in.size(), 1),
                y = tested.forward(x);
  layer_errors e{.y = relative_error(y, exact.forward(x))};
  exact.set_outputs(y);
  const doubles dy = support::representable_normals<number>(n * at.out.size(), 2);
  e.dx = relative_error(tested.backward(dy), exact.backward(dy));
  for (const segment& s : at.table.first(at.trainable))
    e.parameters = std::max(e.parameters, relative_error(tested.gradient(s), exact.gradient(s)));
  return e;
}

template <class L, extent In, Precision P, class Engine, class D>
layer_errors errors_of(const D& device, int samples) {
  constexpr layer_properties at = properties_of<L, In>();
  const doubles plane = initial_plane<typename P::storage>(at);
  const auto bind = [&]<class B>(const B*, const typename B::device& d) {
    layout_builder to{at.table, 0, at.trainable};
    const auto node = L::template bind<B, In>(to);
    return layer_fixture<B, detail::nn::node_of<L, B, In>>(d, node, to, at, samples, plane);
  };
  auto tested = bind(static_cast<const detail::nn::backend<P, D, Engine>*>(nullptr), device);
  auto exact = bind(static_cast<const detail::nn::backend<fp64, cpu, reference>*>(nullptr), cpu{});
  return compare(tested, exact, at, samples);
}

/// An engine's byte convolution of floats that it quantises: sums, or dequantised sums.
template <detail::ops::ByteConvolutionOutput Out, class Engine, class D>
doubles byte_convolution(const D& device, const convolution_problem& p, int samples) {
  const auto n = static_cast<std::size_t>(samples), filters = static_cast<std::size_t>(p.filters);
  const detail::ops::affine_quantizer<float> k =
      detail::ops::fit_affine(-2.0f, 3.0f, detail::ops::unsigned_bytes);  // some are clipped
  random_sequence draw(1, purpose::test, 0, 0);
  std::vector<std::int8_t> w(p.weights());
  for (std::int8_t& q : w) q = static_cast<std::int8_t>(static_cast<int>(draw.below(255)) - 127);
  std::vector<float> weight_scales(filters);
  for (float& scale : weight_scales) scale = static_cast<float>(0.01 + draw.uniform());

  const int in = Engine::template block<float>(p.in.channels),
            out = Engine::template block<float>(p.filters);
  const auto s = device.make_stream();
  const auto numbers = support::to_storage<float>(
      support::to_blocked(support::representable_normals<float>(n * p.in.size(), 1), p.in, in));
  support::device_vector<float, D> x(device, s, numbers), scales(device, s, weight_scales);
  support::device_vector<std::int8_t, D> weights(device, s, w),
      packed(device, s, std::vector<std::int8_t>(Engine::packed_bytes(p)));
  support::device_vector<detail::ops::affine_quantizer<float>, D> k_on_device(device, s, {k});
  support::device_vector<Out, D> y(device, s,
                                   std::vector<Out>(n * detail::ops::sample_size(p.out(), out)));
  Engine::pack_bytes(p, weights.data(), packed.data(), s);
  const auto fprop = [&](detail::ops::quantizer_on<typename D::stream> quantizer) {
    Engine::fprop_bytes(p, samples, x.data(), quantizer, packed.data(), scales.data(), y.data(), s);
  };
  if constexpr (D::host_memory)
    fprop(k);
  else
    fprop(k_on_device.data());
  const std::vector<Out> result = y.read();
  return support::from_blocked(doubles(result.begin(), result.end()), p.out(), out);
}
template <class Engine, class D>
double byte_error(const D& device, const convolution_problem& p, int samples) {
  const auto error_of = [&]<class Out>(Out) {
    return relative_error(byte_convolution<Out, Engine>(device, p, samples),
                          byte_convolution<Out, reference>(cpu{}, p, samples));
  };
  return std::max(error_of(std::int32_t{}), error_of(float{}));
}

}  // namespace bench
