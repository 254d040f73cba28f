// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One layer without a network, with its table and memory; activations are plain NCHW.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/relative.hpp"

namespace cordee::inline CORDEE_ABI {

template <class L, extent In>
struct layer_fixture {
  using layer_backend = detail::nn::backend<fp64, cpu, reference>;
  using table = detail::nn::parameter_table<L, In>;
  using node = detail::nn::node_of<L, layer_backend, In>;

  static constexpr std::span<const segment> segments() { return table::segments; }

  layout_builder layout{segments(), 0, detail::core::count_trainable(segments()), 0, 0};
  node layer = L::template bind<layer_backend, In>(layout);
  arena<double, cpu> memory{cpu(1), segments(), 2};
  detail::nn::activations<cpu> saved{cpu(1), layout.activations};
  detail::nn::activations<cpu> pool{cpu(1), 0};
  detail::nn::gradient_buffers<double, cpu> buffers{pool, 0};
  buffer<std::byte, cpu> packed{cpu(1), layout.packed_size};
  buffer<double, cpu> scratch{cpu(1), 0}, workspace{cpu(1), 0};
  detail::ops::statistics_allreduce batch_norm_allreduce{};
  bool frozen_statistics = false;
  int samples = 0;
  std::vector<double> x;
  const double* y = nullptr;
  double* dy_buffer = nullptr;  // the argument dy of the last backward
  std::vector<std::size_t> ready_order;

  // Accumulating in another order rounds each of at most 2^13 terms differently.
  static constexpr double rounding = 0x1p-40;

  explicit layer_fixture(int n)
      : samples(n), x(normal_numbers(static_cast<std::size_t>(n) * In.size(), 1)) {
    for (std::size_t k = 0; k < segments().size(); ++k)
      for (double& w : of(k)) w = table::initializers[k].mean;
  }

  std::span<double> of(std::size_t k) {
    return memory.plane(0).subspan(segments()[k].offset, segments()[k].size);
  }
  std::vector<double> gradient_of(std::size_t k) {
    const auto g = memory.plane(1).subspan(segments()[k].offset, segments()[k].size);
    return {g.begin(), g.end()};
  }
  void randomize() {
    for (std::size_t k = 0; k < detail::core::count_trainable(segments()); ++k) {
      const auto w = normal_numbers(of(k).size(), 20 + k);
      std::copy(w.begin(), w.end(), of(k).begin());
    }
  }
  void pack_parameters() {
    const cpu device(1);
    layer.pack_parameters(
        pack_pass<layer_backend>{memory.plane(0).data, packed.span().data, device, {}});
  }

  std::vector<double> forward(phase p = phase::train) {
    const forward_pass<layer_backend> pass{packed.span().data,
                                           memory.plane(0).data,
                                           samples,
                                           p,
                                           batch_norm_allreduce,
                                           &saved,
                                           &scratch,
                                           {},
                                           frozen_statistics};
    y = layer.forward(pass, x.data());
    return {y, y + static_cast<std::size_t>(samples) * L::out(In).size()};
  }
  /// Returns the result of the node's backward; dy is copied to a buffer of the pass.
  double* backward(const std::vector<double>& dy, gradient_target<double> to = {},
                   write_mode mode = write_mode::overwrite) {
    pool.begin_backward(nullptr, 0);
    buffers = {pool, static_cast<std::size_t>(samples) * layout.largest_activation};
    dy_buffer = buffers.acquire();
    std::copy(dy.begin(), dy.end(), dy_buffer);
    ready_order.clear();
    const backward_pass<layer_backend> pass{
        packed.span().data, memory.plane(1).data, mode, samples, batch_norm_allreduce, &buffers,
        &scratch,           &workspace,           {}};
    const auto ready = [this](std::size_t k) { ready_order.push_back(k); };
    return layer.backward(pass, dy_buffer, to, ready);
  }
  std::vector<double> dx_of(const std::vector<double>& dy) {
    const double* dx = backward(dy);
    return {dx, dx + x.size()};
  }

  /// Checks that every gradient is the derivative of <g, y>, that dx is where the target says, and
  /// that buffers which are no longer needed are released.
  void check_backward() {
    pack_parameters();
    const auto g = normal_numbers(forward().size(), 2);
    const auto loss = [&] {
      pack_parameters();
      const auto out = forward();
      double sum = 0;
      for (std::size_t i = 0; i < g.size(); ++i) sum += g[i] * out[i];
      return sum;
    };
    loss();
    const auto dx = dx_of(g);
    CHECK(check_gradient(x, dx, loss).max_error < 1e-7);
    for (std::size_t k = 0; k < detail::core::count_trainable(segments()); ++k) {
      loss();
      dx_of(g);
      CHECK(check_gradient(of(k), gradient_of(k), loss).max_error < 1e-7);
    }

    // ready: each segment once, in descending order.
    std::vector<std::size_t> expected;
    for (std::size_t k = detail::core::count_trainable(segments()); k-- > 0;) expected.push_back(k);
    CHECK(ready_order == expected);

    // dx added to another gradient, and no dx: the same weight gradients, and dy is released.
    std::vector<std::vector<double>> weights;
    for (const std::size_t k : expected) weights.push_back(gradient_of(k));
    std::vector<double> sum(x.size(), 5.0);
    loss();
    CHECK(backward(g, {.accumulate_into = sum.data()}) == sum.data());
    for (std::size_t i = 0; i < dx.size(); ++i)
      CHECK(std::abs(sum[i] - (5 + dx[i])) <= rounding * (5 + std::abs(dx[i])));
    CHECK(is_free(dy_buffer));
    loss();
    CHECK(backward(g, {.needed = false}) == nullptr);
    CHECK(is_free(dy_buffer));
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(gradient_of(expected[i]) == weights[i]);

    // write_mode::add: twice the gradient.
    loss();
    backward(g, {}, write_mode::add);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t j = 0; j < weights[i].size(); ++j)
        CHECK(gradient_of(expected[i])[j] == support::relative(2 * weights[i][j], rounding));
  }

 private:
  // Whether a buffer was released: acquires three, more than a layer uses.
  bool is_free(const double* buffer) {
    bool found = false;
    for (int i = 0; i < 3; ++i) found = buffers.acquire() == buffer || found;
    return found;
  }
};

}  // namespace cordee::inline CORDEE_ABI
