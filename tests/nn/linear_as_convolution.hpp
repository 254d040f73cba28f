// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of the fully connected layer on any GPU device in 16 bits, by the engine's convolutions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/linear.hpp>
#include <cordee/ops/cpu/linear.hpp>
#include <cordee/ops/gpu/linear.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

/// What a pass leaves behind, as doubles.
struct linear_gradients {
  std::vector<double> dx, dw, db;
  bool operator==(const linear_gradients&) const = default;
};

/// A layer without a network; memory that no kernel has written is NaN.
template <Precision P, class Engine, class D>
class linear_fixture {
  using B = detail::nn::backend<P, D, Engine>;
  using N = typename B::number;
  static_assert(B::linear_is_convolution);

 public:
  linear_fixture(const D& device, int features, int classes, int samples,
                 const std::vector<double>& w, const std::vector<double>& b)
      : at_{device},
        in_{features, 1, 1},
        table_{{.name = "weight", .size = w.size()},
               {.name = "bias", .offset = detail::core::align_up(w.size()), .size = b.size()}},
        layout_{table_},
        node_(in_, classes, layout_),
        samples_(samples),
        plane_(device, table_[1].offset + b.size()),
        packed_(device, layout_.packed_size),
        saved_(device, layout_.activations) {
    device.copy(at(plane_, 0), at(at_.template put_as<float>(w), 0), 4 * w.size(), at_.s);
    device.copy(at(plane_, 1), at(at_.template put_as<float>(b), 0), 4 * b.size(), at_.s);
    node_.pack_parameters(pack_pass<B>{plane_.span().data, packed_.span().data, device, at_.s});
  }

  /// Of x (samples, features).
  std::vector<double> forward(const std::vector<double>& x) {
    const auto features = static_cast<std::size_t>(in_.channels);
    std::vector<double> rows(static_cast<std::size_t>(samples_) * stride());  // padded with zeros
    for (std::size_t i = 0; i < x.size(); ++i) rows[i / features * stride() + i % features] = x[i];
    x_ = at_.template put_as<N>(rows);
    const N* const y = node_.forward({packed_.span().data,
                                      plane_.span().data,
                                      samples_,
                                      phase::train,
                                      {},
                                      &saved_,
                                      &scratch_,
                                      at_.s},
                                     x_.span().data);
    return numbers(y, table_[1].size);
  }

  /// From gradients of 5 in the plane and, where it is added to, in dx (samples, stride).
  linear_gradients backward(const std::vector<double>& dy, write_mode mode, bool needed, bool adds,
                            std::vector<std::uint8_t> frozen) {
    const auto n = static_cast<std::size_t>(samples_);
    pool_.begin_backward(nullptr, 0);
    buffers_ = {pool_, n * layout_.largest_activation};
    const auto nan = at_.template put_as<N>(std::vector<double>(
        n * layout_.largest_activation, std::numeric_limits<double>::quiet_NaN()));
    N* free[3];
    for (N*& one : free) {
      one = buffers_.acquire();
      copy(one, nan.span().data, nan.size());
    }
    pool_.begin_backward(nullptr, 0);
    buffers_ = {pool_, n * layout_.largest_activation};
    N* const from = buffers_.acquire();
    copy(from, at_.template put_as<N>(dy).span().data, dy.size());
    auto gradients = at_.template put_as<float>(std::vector<double>(plane_.size(), 5));
    auto sum =
        at_.template put_as<N>(std::vector<double>(std::max(n, std::size_t{1}) * stride(), 5));
    backward_pass<B> pass{packed_.span().data, gradients.span().data, mode, samples_, {}, &buffers_,
                          &scratch_,           &workspace_,           at_.s};
    pass.frozen = frozen.data();
    std::vector<std::size_t> order;
    auto ready = [&](std::size_t segment) { order.push_back(segment); };
    const N* const dx =
        node_.backward(pass, from, {adds ? sum.span().data : nullptr, needed}, ready);
    CHECK(order == std::vector<std::size_t>{1, 0});
    CHECK((dx == nullptr) == !needed);
    if (adds) CHECK(dx == sum.span().data);
    if (dx != from) {  // whose memory is free then, as all of the layer's own
      std::vector<const N*> again;
      for (int i = needed && !adds ? 1 : 0; i < 3; ++i) again.push_back(buffers_.acquire());
      for (const N* const one : free) CHECK((one == dx) != (std::ranges::count(again, one) == 1));
    }
    const auto all = at_.numbers(gradients);
    const auto tensor = [&](const segment& t) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(t.offset);
      return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(t.size));
    };
    return {dx == nullptr ? std::vector<double>() : numbers(dx, stride()), tensor(table_[0]),
            tensor(table_[1])};
  }

  /// Numbers from one sample of x to the next.
  [[nodiscard]] std::size_t stride() const { return B::numbers(in_); }

 private:
  template <class T>
  T* at(const buffer<T, D>& in, std::size_t tensor) const {
    return const_cast<T*>(in.span().data) + (tensor == 0 ? 0 : table_[tensor].offset);
  }
  void copy(N* to, const N* from, std::size_t n) const {
    at_.device.copy(to, from, n * sizeof(N), at_.s);
  }
  std::vector<double> numbers(const N* from, std::size_t of_a_sample) const {
    buffer<N, D> all(at_.device, static_cast<std::size_t>(samples_) * of_a_sample);
    copy(all.span().data, from, all.size());
    return at_.numbers(all);
  }

  device_fixture<D> at_;
  extent in_;
  std::vector<segment> table_;
  layout_builder layout_;
  detail::nn::linear_as_convolution_node<B> node_;
  int samples_;
  buffer<float, D> plane_;
  buffer<std::byte, D> packed_;
  buffer<N, D> x_{at_.device, 0}, workspace_{at_.device, 0};
  buffer<double, D> scratch_{at_.device, 0};
  detail::nn::activations<D> saved_;
  detail::nn::activations<D> pool_{at_.device, 0};
  detail::nn::gradient_buffers<N, D> buffers_{pool_, 0};
};

/// The three products on numbers whose sums are exact: the CPU's in double, rounded where
/// nn/linear.hpp says. Classes and features with padding and without, as of CIFAR and ImageNet, and
/// a batch without samples.
template <Precision P, class Engine, class D>
void linear_by_convolution_is_the_cpus(const D& device) {
  using N = typename P::storage;
  struct layer {
    int features, classes;
  };
  for (const layer& size : {layer{64, 10}, {1, 1}, {21, 33}, {40, 1000}, {128, 16}})
    for (const int samples : {0, 1, 3, 37}) {
      INFO(size.features, " -> ", size.classes, ", samples ", samples);
      const auto features = static_cast<std::size_t>(size.features),
                 classes = static_cast<std::size_t>(size.classes),
                 n = static_cast<std::size_t>(samples);
      const auto x = short_numbers<N>(n * features, 1), w = short_numbers<N>(classes * features, 2),
                 b = short_numbers<N>(classes, 3), dy = short_numbers<N>(n * classes, 4);
      linear_fixture<P, Engine, D> tested(device, size.features, size.classes, samples, w, b);

      const detail::ops::linear_problem p{features, classes, features};
      const cpu::stream host{};
      std::vector<double> product(n * classes), dx(x.size()), dw(w.size()), db(classes);
      linear_forward(p, samples, x.data(), w.data(), std::vector<double>(classes).data(),
                     product.data(), host);
      linear_input_gradient(p, samples, dy.data(), w.data(), dx.data(), host);
      linear_weight_gradient(p, samples, x.data(), dy.data(), dw.data(), db.data(),
                             write_mode::overwrite, host);
      if constexpr (requires { requires Engine::rounds_weight_gradients; }) dw = as<N>(dw);

      std::vector<double> y(product.size());
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = as<N>(as<N>(product[i]) + b[i % classes]);
      CHECK(tested.forward(x) == y);

      const auto plus = [](std::vector<double> v, double five) {
        for (double& one : v) one += five;
        return v;
      };
      const auto padded = [&](const std::vector<double>& rows, double to_each) {
        std::vector<double> out(n * tested.stride(), to_each);
        for (std::size_t i = 0; i < rows.size(); ++i)
          out[i / features * tested.stride() + i % features] = as<N>(rows[i] + to_each);
        return out;
      };
      const std::vector<double> no_dw(dw.size(), 5), no_db(db.size(), 5), none;
      const auto check = [&](write_mode mode, bool needed, bool adds, bool no_weight,
                             bool no_bias) {
        INFO((mode == write_mode::add), needed, adds, no_weight, no_bias);
        const double five = mode == write_mode::add ? 5 : 0;
        const linear_gradients found =
            tested.backward(dy, mode, needed, adds, {std::uint8_t{no_weight}, no_bias});
        CHECK(found.dx == (needed ? padded(dx, adds ? 5 : 0) : none));
        CHECK(found.dw == (no_weight ? no_dw : plus(dw, five)));
        CHECK(found.db == (no_bias ? no_db : plus(db, five)));
      };
      check(write_mode::overwrite, true, false, false, false);
      check(write_mode::add, true, true, false, false);
      if (samples != 3) continue;  // which are enough for the others
      check(write_mode::overwrite, false, false, false, false);
      check(write_mode::overwrite, true, false, true, false);
      check(write_mode::overwrite, true, false, false, true);
    }
}

}  // namespace support
