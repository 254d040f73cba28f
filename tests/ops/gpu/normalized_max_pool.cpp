// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm, ReLU and max pool in one pass, beside the separate kernels (forward, bit by bit) and
// beside the CPU's passes in double (backward).
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class N, int V>
void check_pool(const max_pool_problem& pool, int samples, write_mode mode, bool shares,
                bool with_nan = false) {
  INFO("max pool, ", describe(pool.in), ", window ", pool.window, ", stride ", pool.stride, ", V ",
       V, ", samples ", samples);
  using real = cordee::detail::precision::wide<N>;
  batch_norm_on_device<N, epilogue::relu, emulated> bn(emulated(3), {pool.in, 0}, V, samples);
  if (with_nan) {
    auto x = bn.x.read();
    x[x.size() / 2] = nearest<N>(std::nan(""));
    bn.x = {bn.device, bn.s, x};
  }
  const statistics_allreduce combine = bn.forward_of_ranks(shares);
  if (with_nan)  // of one number, not of its channel
    bn.saved = {bn.device, bn.s, [&] {
                  auto rows = bn.saved.read();
                  for (real& one : rows)
                    if (std::isnan(one)) one = real{0.5};
                  return rows;
                }()};
  if (with_nan) batch_norm_normalize<N, V, epilogue::relu>(bn.at, samples, bn.tensors(), {}, bn.s);

  const extent out = pool.out();
  const auto numbers = static_cast<std::size_t>(samples) * sample_size(out, V);
  const auto room = [&] {
    return device_vector<N, emulated>(bn.device, bn.s, std::vector<N>(numbers));
  };
  auto y = room(), fused_y = room();
  device_vector<std::uint8_t, emulated> taps(bn.device, bn.s,
                                             std::vector<std::uint8_t>(numbers, 99)),
      fused_taps(bn.device, bn.s, std::vector<std::uint8_t>(numbers, 77));
  max_pool_forward<N, V>(pool, samples, bn.y.data(), y.data(), taps.data(), bn.s);
  const auto normalized = bn.y.read();
  normalized_max_pool_forward<N, V>(pool, samples, bn.tensors(), fused_y.data(), fused_taps.data(),
                                    bn.s);
  CHECK(same_bytes(fused_y.read(), y.read()));
  CHECK(same_bytes(fused_taps.read(), taps.read()));
  if (with_nan) return;

  auto dy = representable_normals<N>(static_cast<std::size_t>(samples) * out.size(), 12);
  const auto where = from_blocked(taps.read(), out, V);
  std::vector<double> g(bn.want.x.size());
  max_pool_backward<double, 1>(pool, samples, dy.data(), where.data(), g.data(),
                               write_mode::overwrite, cpu::stream{});
  bn.want.y = from_blocked(to_doubles(normalized), pool.in, V);
  const auto dx = bn.want.backward(g, mode);
  device_vector<N, emulated> gradient(bn.device, bn.s, to_storage<N>(to_blocked(dy, out, V)));
  normalized_max_pool_backward<N, V>(bn.at, pool, samples, bn.tensors(), bn.count, gradient.data(),
                                     fused_taps.data(), bn.input_gradient.data(), bn.dgamma.data(),
                                     bn.dbeta.data(), mode, combine, bn.s);
  bn.same_activations("dx", bn.input_gradient, dx);
  bn.same_sums("dgamma", bn.dgamma, bn.want.dgamma);
  bn.same_sums("dbeta", bn.dbeta, bn.want.dbeta);
  if (shares) return;

  // By sums of a masked gradient, as an input gradient's graph leaves them.
  auto masked = gradient.read();
  auto rows = bn.saved.read();
  const auto lanes = static_cast<std::size_t>(sample_size({pool.in.channels, 1, 1}, V));
  const batch_norm_coefficients<real> row(rows.data(), lanes, 0);
  const auto maxima = bn.y.read(), outputs = fused_y.read();  // x there
  std::vector<double> sums(2 * lanes);
  const blocked_layout layout(out, V);
  for (std::size_t i = 0; i < masked.size(); ++i) {
    const std::size_t c = layout.position_of(i).channel;
    if (!(static_cast<double>(cordee::detail::precision::widened(outputs[i])) > 0)) masked[i] = N{};
    const auto g = static_cast<double>(cordee::detail::precision::widened(masked[i]));
    sums[c] += g;
    sums[lanes + c] += g *
                       (static_cast<double>(cordee::detail::precision::widened(maxima[i])) -
                        static_cast<double>(row.mean[c])) *
                       static_cast<double>(row.inv_std[c]);
  }
  for (std::size_t c = 0; c < lanes; ++c) {
    row.shift[c] = static_cast<real>(sums[c]);
    row.slope[c] = static_cast<real>(sums[lanes + c]);
  }
  bn.saved = {bn.device, bn.s, rows};
  gradient = {bn.device, bn.s, masked};
  normalized_max_pool_backward_of_sums<N, V>(
      pool, samples, gradient.data(), fused_taps.data(),
      norm_gradients<N, real>{bn.tensors(), bn.input_gradient.data(), bn.dgamma.data(),
                              bn.dbeta.data()},
      write_mode::overwrite, bn.s);
  bn.same_activations("dx of sums", bn.input_gradient, dx);
  if (mode == write_mode::overwrite) bn.same_sums("dgamma of sums", bn.dgamma, bn.want.dgamma);
}

}  // namespace

TEST_CASE_TEMPLATE(
    "normalized_max_pool: y and its taps have the bits of separate passes, dx and "
    "the parameters' gradients are the CPU's",
    N, half, bfloat, float) {
  for (const auto& pool :
       {max_pool_problem{{16, 8, 8}, 3, 2, 1}, max_pool_problem{{20, 7, 9}, 3, 2, 1},
        max_pool_problem{{3, 6, 5}, 3, 1, 1}, max_pool_problem{{17, 5, 4}, 2, 2, 0}}) {
    check_pool<N, 8>(pool, 3, write_mode::overwrite, false);
    check_pool<N, 24>(pool, 2, write_mode::add, true);
  }
  check_pool<N, 1>({{3, 6, 6}, 3, 2, 1}, 5, write_mode::overwrite, false);
}

TEST_CASE("normalized_max_pool: one NaN is the maximum of its windows, as in separate passes") {
  check_pool<half, 8>({{8, 6, 6}, 3, 2, 1}, 2, write_mode::overwrite, false, true);
}
