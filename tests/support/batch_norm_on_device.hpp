// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch norm on any device and the CPU's in double on the same numbers, in NCHW.
#pragma once

#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/batch_norm.hpp>

#include "tests/support/batch_norm_fixture.hpp"
#include "tests/support/device_vectors.hpp"

namespace support {

template <Number N, class Epilogue, class D>
struct batch_norm_on_device {
  using real = cordee::detail::precision::wide<N>;
  using doubles = std::vector<double>;

  D device;
  cordee::detail::ops::batch_norm_problem at;
  int V, samples;
  typename D::stream s = device.make_stream();
  batch_norm_fixture<double, 1, Epilogue> want{at, samples};
  doubles dy = representable_normals<N>(want.x.size(), 9), dx{};
  device_vector<real, D> gamma, beta, saved, mean, variance, dgamma, dbeta;
  device_vector<N, D> x, y, residual, gradient, input_gradient;
  double count = 0;

  batch_norm_on_device(const D& d, const cordee::detail::ops::batch_norm_problem& problem,
                       int block, int n)
      : device(d),
        at(problem),
        V(block),
        samples(n),
        gamma(per_channel(want.gamma, 4, 0)),
        beta(per_channel(want.beta, 5, 0)),
        saved(device, s, std::vector<real>(at.saved_size(samples, V), real{77})),
        mean(per_channel(want.mean, 6, 1)),
        variance(per_channel(want.variance, 7, 1)),
        dgamma(per_channel(want.dgamma, 8, 1)),
        dbeta(per_channel(want.dbeta, 9, 1)),
        x(activations(want.x = representable_normals<N>(want.x.size(), 1))),
        y(activations(doubles(want.x.size(), 7.0))),
        residual(activations(want.residual = representable_normals<N>(want.x.size(), 2))),
        gradient(activations(dy)),
        input_gradient(activations(doubles(want.x.size(), 7.0))) {}

  /// One number per channel on both sides, padded by zeros to whole blocks of V, or not padded with
  /// block 0.
  device_vector<real, D> per_channel(doubles& numbers, std::uint64_t seed, int block) {
    numbers = representable_normals<real>(static_cast<std::size_t>(at.in.channels), seed);
    for (double& one : numbers) one = std::abs(one);  // some are variances
    auto there = to_storage<real>(numbers);
    if (block == 0) there.resize(at.padded_channels(V));
    return {device, s, there};
  }
  device_vector<N, D> activations(const doubles& plain) {
    return {device, s, to_storage<N>(to_blocked(plain, at.in, V))};
  }
  doubles plain(device_vector<N, D>& blocks) const {
    return from_blocked(to_doubles(blocks.read()), at.in, V);
  }
  cordee::detail::ops::batch_norm_tensors<N, real> tensors() {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), nullptr};
  }

  /// Only these calls are compiled per V.
  template <class F>
  void in_block(const F& f) const {
    if (V == 1) f(std::integral_constant<int, 1>{});
    if (V == 8) f(std::integral_constant<int, 8>{});
    if (V == 24) f(std::integral_constant<int, 24>{});
  }
  void forward(const cordee::detail::ops::statistics_allreduce& combine = {}) {
    in_block([&](auto v) {
      count = batch_norm_forward<N, v(), Epilogue>(at, samples, tensors(), residual.data(),
                                                   mean.data(), variance.data(), combine, s);
    });
  }
  /// Both sides' forward; backward's message then, of two ranks if there are `two`, of which the
  /// other's gradients are zero.
  cordee::detail::ops::statistics_allreduce forward_of_ranks(bool two) {
    want.forward();
    forward();
    if (!two) return {};
    want.count *= 2;
    want.allreduce.call = [](void*, std::span<double>) {};
    return {.call = [](void*, std::span<double> sums) { sums.back() *= 2; }};
  }
  void evaluate() {
    in_block([&](auto v) {
      batch_norm_evaluate<N, v(), Epilogue>(at, samples, tensors(), residual.data(), mean.data(),
                                            variance.data(), s);
    });
  }
  void backward(write_mode mode, bool in_place,
                const cordee::detail::ops::statistics_allreduce& combine = {}) {
    in_block([&](auto v) {
      batch_norm_backward<N, v(), Epilogue>(at, samples, tensors(), count, gradient.data(),
                                            (in_place ? gradient : input_gradient).data(),
                                            dgamma.data(), dbeta.data(), mode, combine, s);
    });
  }

  /// Numbers of order one from some tens of operations in wide on numbers up to ten, and one
  /// rounding to N.
  void same_activations(const char* what, device_vector<N, D>& a, const doubles& b) const {
    INFO(what);
    const auto blocks = to_doubles(a.read());
    CHECK(max_error_ratio(from_blocked(blocks, at.in, V), b, roundoff<N>, 200 * roundoff<real>) <=
          1);
    CHECK(padding_is_zero(blocks, at.in, V));
  }
  /// Sums in wide: one rounding per summand, of numbers of order one.
  void same_sums(const char* what, device_vector<real, D>& a, const doubles& b) const {
    INFO(what);
    const double values = static_cast<double>(samples) * static_cast<double>(at.in.pixels());
    CHECK(max_error_ratio(to_doubles(a.read()), b, 8 * roundoff<real>,
                          (8 + values) * roundoff<real>) <= 1);
  }

  void check(write_mode mode, const cordee::detail::ops::statistics_allreduce& shared = {}) {
    want.allreduce = shared;
    INFO(describe(at.in), ", group ", at.ghost_batch, ", samples ", samples, ", V ", V);
    want.forward();
    forward(shared);
    // Of this rank alone, where the CPU's is of all ranks that share.
    const double own = static_cast<double>(samples) * static_cast<double>(at.in.pixels());
    CHECK(count == (shared ? own : want.count));
    same_activations("y", y, want.y);
    same_sums("running mean", mean, want.mean);
    same_sums("running variance", variance, want.variance);
    // The reference's ReLU mask is taken from the device's y, as rounding may change a sign.
    if (samples > 0) want.y = plain(y);
    auto behind = dy;
    const auto before_gamma = want.dgamma, before_beta = want.dbeta;
    dx = want.backward(behind, mode);
    const bool adds = std::same_as<Epilogue, cordee::detail::ops::epilogue::add_relu>;
    backward(mode, !adds, shared);
    same_activations("dx", adds ? input_gradient : gradient, dx);
    if (adds) same_activations("what the residual receives", gradient, behind);
    same_sums("dgamma", dgamma, want.dgamma);
    same_sums("dbeta", dbeta, want.dbeta);
    evaluate();
    want.mean = to_doubles(mean.read());
    want.variance = to_doubles(variance.read());
    want.evaluate();
    same_activations("y in evaluation", y, want.y);
    check_frozen(mode);
  }
  /// Backward with frozen statistics.
  void check_frozen(write_mode mode) {
    at.ghost_batch = want.p.ghost_batch = 0;
    count = want.count = at.frozen_count;
    want.allreduce = {};  // constants are not shared
    gradient = activations(dy);
    if (samples > 0) want.y = plain(y);
    auto behind = dy;
    dx = want.backward(behind, mode);
    backward(mode, false);
    same_activations("dx by constants", input_gradient, dx);
    want.dgamma.resize(static_cast<std::size_t>(at.in.channels));
    same_sums("dgamma by constants", dgamma, want.dgamma);
    same_sums("dbeta by constants", dbeta, want.dbeta);
  }
};

template <Number N, class Epilogue, class D>
void check_batch_norm(const D& device) {
  const auto check = [&](const cordee::detail::ops::batch_norm_problem& at, int samples,
                         write_mode mode) {
    for (const int V : {1, 8, 24})
      batch_norm_on_device<N, Epilogue, D>(device, at, V, samples).check(mode);
  };
  check({{10, 3, 5}, 0}, 0, write_mode::overwrite);
  check({{10, 3, 5}, 0}, 2, write_mode::overwrite);
  check({{10, 3, 5}, 2}, 3, write_mode::add);
  check({{2, 30, 29}, 2}, 3, write_mode::add);      // several chunks, and fewer in the last group
  check({{1, 1, 1}, 0}, 1, write_mode::overwrite);  // one value has no unbiased variance
}

}  // namespace support
