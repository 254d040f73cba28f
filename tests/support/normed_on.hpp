// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch norm on any device, and beside it the CPU's in double on the same numbers, in NCHW.
#pragma once

#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/batch_norm.hpp>

#include "tests/support/normed.hpp"
#include "tests/support/on_grid.hpp"

namespace support {

template <Number N, class Epilogue, class D>
struct normed_on {
  using real = wide<N>;
  using doubles = std::vector<double>;

  D device;
  batch_norm_problem at;
  int V, samples;
  typename D::stream s = device.open();
  normed<double, 1, Epilogue> want{at, samples};
  doubles dy = held<N>(want.x.size(), 9), dx{};
  remote<real, D> gamma, beta, saved, mean, variance, dgamma, dbeta;
  remote<N, D> x, y, residual, gradient, input_gradient;
  double count = 0;

  normed_on(const D& where, const batch_norm_problem& problem, int block, int n)
      : device(where),
        at(problem),
        V(block),
        samples(n),
        gamma(per_channel(want.gamma, 4, 0)),
        beta(per_channel(want.beta, 5, 0)),
        saved(device, s, std::vector<real>(at.saved(samples, V), real{77})),
        mean(per_channel(want.mean, 6, 1)),
        variance(per_channel(want.variance, 7, 1)),
        dgamma(per_channel(want.dgamma, 8, 1)),
        dbeta(per_channel(want.dbeta, 9, 1)),
        x(activations(want.x = held<N>(want.x.size(), 1))),
        y(activations(doubles(want.x.size(), 7.0))),
        residual(activations(want.residual = held<N>(want.x.size(), 2))),
        gradient(activations(dy)),
        input_gradient(activations(doubles(want.x.size(), 7.0))) {}

  /// A number a channel on both sides, padded by zeros to whole blocks of V or not at all.
  remote<real, D> per_channel(doubles& numbers, std::uint64_t seed, int block) {
    numbers = held<real>(static_cast<std::size_t>(at.at.channels), seed);
    for (double& one : numbers) one = std::abs(one);  // variances among them
    auto there = converted<real>(numbers);
    if (block == 0) there.resize(at.lanes_of(V));
    return {device, s, there};
  }
  remote<N, D> activations(const doubles& plain) {
    return {device, s, converted<N>(in_blocks(plain, at.at, V))};
  }
  doubles plain(remote<N, D>& blocks) const {
    return out_of_blocks(converted_back(blocks.read()), at.at, V);
  }
  batch_norm_tensors<N, real> tensors() {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), nullptr};
  }

  /// Everything but these calls is compiled once for all V.
  template <class F>
  void in_block(const F& f) const {
    if (V == 1) f(std::integral_constant<int, 1>{});
    if (V == 8) f(std::integral_constant<int, 8>{});
    if (V == 24) f(std::integral_constant<int, 24>{});
  }
  void forward(const combine_sums& combine = {}) {
    in_block([&](auto v) {
      count = batch_norm_forward<N, v(), Epilogue>(at, samples, tensors(), residual.data(),
                                                   mean.data(), variance.data(), combine, s);
    });
  }
  void evaluate() {
    in_block([&](auto v) {
      batch_norm_evaluate<N, v(), Epilogue>(at, samples, tensors(), residual.data(), mean.data(),
                                            variance.data(), s);
    });
  }
  void backward(into mode, bool in_place, const combine_sums& combine = {}) {
    in_block([&](auto v) {
      batch_norm_backward<N, v(), Epilogue>(at, samples, tensors(), count, gradient.data(),
                                            (in_place ? gradient : input_gradient).data(),
                                            dgamma.data(), dbeta.data(), mode, combine, s);
    });
  }

  /// Numbers of the size of one that some tens of operations in wide made of numbers up to ten, and
  /// one rounding to N.
  void same_activations(const char* what, remote<N, D>& a, const doubles& b) const {
    INFO(what);
    const auto blocks = converted_back(a.read());
    CHECK(worst(out_of_blocks(blocks, at.at, V), b, roundoff<N>, 200 * roundoff<real>) <= 1);
    CHECK(padding_is_zero(blocks, at.at, V));
  }
  /// Sums in wide of as many numbers, of about one: a rounding each.
  void same_sums(const char* what, remote<real, D>& a, const doubles& b) const {
    INFO(what);
    const double values = static_cast<double>(samples) * static_cast<double>(at.at.pixels());
    CHECK(worst(converted_back(a.read()), b, 8 * roundoff<real>, (8 + values) * roundoff<real>) <=
          1);
  }

  void check(into mode, const combine_sums& shared = {}) {
    want.combine = shared;
    INFO(to_text(at.at), ", group ", at.group, ", samples ", samples, ", V ", V);
    want.forward();
    forward(shared);
    CHECK(count == want.count);
    same_activations("y", y, want.y);
    same_sums("running mean", mean, want.mean);
    same_sums("running variance", variance, want.variance);
    // From here on the reference's ReLU is open where the device's is: rounding may close one.
    if (samples > 0) want.y = plain(y);
    auto behind = dy;
    const auto before_gamma = want.dgamma, before_beta = want.dbeta;
    dx = want.backward(behind, mode);
    const bool adds = std::same_as<Epilogue, epilogue::add_relu>;
    backward(mode, !adds, shared);
    same_activations("dx", adds ? input_gradient : gradient, dx);
    if (adds) same_activations("what the residual receives", gradient, behind);
    same_sums("dgamma", dgamma, want.dgamma);
    same_sums("dbeta", dbeta, want.dbeta);
    evaluate();
    want.mean = converted_back(mean.read());
    want.variance = converted_back(variance.read());
    want.evaluate();
    same_activations("y in evaluation", y, want.y);
    check_frozen(mode);
  }
  /// Backward behind evaluation.
  void check_frozen(into mode) {
    at.group = want.at.group = 0;
    count = want.count = at.constant;
    want.combine = {};  // what is constant is not shared
    gradient = activations(dy);
    if (samples > 0) want.y = plain(y);
    auto behind = dy;
    dx = want.backward(behind, mode);
    backward(mode, false);
    same_activations("dx by constants", input_gradient, dx);
    want.dgamma.resize(static_cast<std::size_t>(at.at.channels));
    same_sums("dgamma by constants", dgamma, want.dgamma);
    same_sums("dbeta by constants", dbeta, want.dbeta);
  }
};

template <Number N, class Epilogue, class D>
void check_batch_norm(const D& device) {
  const auto check = [&](const batch_norm_problem& at, int samples, into mode) {
    for (const int V : {1, 8, 24}) normed_on<N, Epilogue, D>(device, at, V, samples).check(mode);
  };
  check({{10, 3, 5}, 0}, 0, into::overwrite);
  check({{10, 3, 5}, 0}, 2, into::overwrite);
  check({{10, 3, 5}, 2}, 3, into::add);
  check({{2, 30, 29}, 2}, 3, into::add);      // several chunks, and fewer in the last group
  check({{1, 1, 1}, 0}, 1, into::overwrite);  // one value has no unbiased variance
}

}  // namespace support
