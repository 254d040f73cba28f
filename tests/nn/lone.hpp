// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One layer without a network: its table, its memory, one pass after another in plain NCHW.
#pragma once

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/gradient.hpp>

namespace cordee::inline CORDEE_ABI {

template <class L, extent In>
struct lone {
  using kit = backend<fp64, cpu, reference>;
  using table = parameter_table<L, In>;
  using node = node_of<L, kit, In>;

  static constexpr std::span<const segment> segments() { return table::segments; }

  placement place{segments(), 0, count_trainable(segments()), 0, 0};
  node layer = L::template bind<kit, In>(place);
  arena<double, cpu> memory{cpu(1), segments(), 2};
  activations<cpu> store{cpu(1), place.activation};
  gradient_buffers<double, cpu> buffers{cpu(1)};
  buffer<std::byte, cpu> image{cpu(1), place.image};
  buffer<double, cpu> scratch{cpu(1), 0}, workspace{cpu(1), 0};
  combine_sums combine{};
  bool frozen = false;
  int samples = 0;
  std::vector<double> x;
  const double* y = nullptr;
  double* sent = nullptr;  // the buffer in which the last backward got its dy
  std::vector<std::size_t> announced;

  explicit lone(int n) : samples(n), x(normal_numbers(static_cast<std::size_t>(n) * In.size(), 1)) {
    for (std::size_t k = 0; k < segments().size(); ++k)
      for (double& w : of(k)) w = table::beginnings[k].mean;
  }

  std::span<double> of(std::size_t k) {
    return memory.plane(0).subspan(segments()[k].offset, segments()[k].size);
  }
  std::vector<double> gradient_of(std::size_t k) {
    const auto g = memory.plane(1).subspan(segments()[k].offset, segments()[k].size);
    return {g.begin(), g.end()};
  }
  void randomise() {
    for (std::size_t k = 0; k < count_trainable(segments()); ++k) {
      const auto w = normal_numbers(of(k).size(), 20 + k);
      std::copy(w.begin(), w.end(), of(k).begin());
    }
  }
  void publish() {
    const cpu here(1);
    layer.publish(publish_pass<kit>{memory.plane(0).data, image.span().data, here, {}});
  }

  std::vector<double> forward(phase what = phase::train) {
    const forward_pass<kit> pass{image.span().data,
                                 memory.plane(0).data,
                                 samples,
                                 what,
                                 combine,
                                 &store,
                                 &scratch,
                                 {},
                                 frozen};
    y = layer.forward(pass, x.data());
    return {y, y + static_cast<std::size_t>(samples) * L::out(In).size()};
  }
  /// What backward returned, if dx is wanted; dy stands in a buffer of the pass.
  double* backward(const std::vector<double>& dy, destination<double> to = {},
                   into mode = into::overwrite) {
    buffers.reset(static_cast<std::size_t>(samples) * place.largest);
    sent = buffers.take();
    std::copy(dy.begin(), dy.end(), sent);
    announced.clear();
    const backward_pass<kit> pass{
        image.span().data, memory.plane(1).data, mode, samples, combine, &buffers,
        &scratch,          &workspace,           {}};
    const auto ready = [this](std::size_t k) { announced.push_back(k); };
    return layer.backward(pass, sent, to, ready);
  }
  std::vector<double> dx_of(const std::vector<double>& dy) {
    const double* dx = backward(dy);
    return {dx, dx + x.size()};
  }

  /// Every gradient is the derivative of <g, y>; dx stands where it was wanted, and the buffers
  /// that nobody needs any more are free again.
  void check_backward() {
    publish();
    const auto g = normal_numbers(forward().size(), 2);
    const auto loss = [&] {
      publish();
      const auto out = forward();
      double sum = 0;
      for (std::size_t i = 0; i < g.size(); ++i) sum += g[i] * out[i];
      return sum;
    };
    loss();
    const auto dx = dx_of(g);
    CHECK(check_gradient(x, dx, loss).worst < 1e-7);
    for (std::size_t k = 0; k < count_trainable(segments()); ++k) {
      loss();
      dx_of(g);
      CHECK(check_gradient(of(k), gradient_of(k), loss).worst < 1e-7);
    }

    // In descending order, each once.
    std::vector<std::size_t> expected;
    for (std::size_t k = count_trainable(segments()); k-- > 0;) expected.push_back(k);
    CHECK(announced == expected);

    // Onto something, and nowhere: the same weight gradients, and dy's buffer is free.
    std::vector<std::vector<double>> weights;
    for (const std::size_t k : expected) weights.push_back(gradient_of(k));
    std::vector<double> onto(x.size(), 5.0);
    loss();
    CHECK(backward(g, {.onto = onto.data()}) == onto.data());
    for (std::size_t i = 0; i < dx.size(); ++i)
      CHECK(onto[i] == doctest::Approx(5 + dx[i]).epsilon(1e-12));
    CHECK(free(sent));
    loss();
    CHECK(backward(g, {.wanted = false}) == nullptr);
    CHECK(free(sent));
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(gradient_of(expected[i]) == weights[i]);

    // Added: twice as much.
    loss();
    backward(g, {}, into::add);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t j = 0; j < weights[i].size(); ++j)
        CHECK(gradient_of(expected[i])[j] == doctest::Approx(2 * weights[i][j]).epsilon(1e-12));
  }

 private:
  // Whether a buffer is among those that may be taken: there are at most three.
  bool free(const double* which) {
    bool found = false;
    for (int i = 0; i < 3; ++i) found = buffers.take() == which || found;
    return found;
  }
};

}  // namespace cordee::inline CORDEE_ABI
