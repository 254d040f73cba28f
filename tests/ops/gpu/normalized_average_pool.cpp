// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a residual block and an average pool in one pass, beside the separate kernels (y and
// the gradient of the sum, bit by bit) and beside the CPU's passes in double.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/pooling.hpp>

#include "tests/support/batch_norm_on_device.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class N, int V>
void check_average(const extent& in, int samples, write_mode mode, bool shares) {
  INFO("average pool, ", describe(in), ", V ", V, ", samples ", samples);
  batch_norm_on_device<N, epilogue::add_relu, emulated> bn(emulated(3), {in, 0}, V, samples);
  const statistics_allreduce combine = bn.forward_of_ranks(shares);
  const auto lanes = static_cast<std::size_t>(sample_size({in.channels, 1, 1}, V));
  const auto numbers = static_cast<std::size_t>(samples) * lanes;
  const auto room = [&] {
    return device_vector<N, emulated>(bn.device, bn.s, std::vector<N>(numbers));
  };
  auto y = room(), fused_y = room();
  average_pool_forward<N, V>(in, samples, bn.y.data(), y.data(), bn.s);
  bn.want.y = bn.plain(bn.y);  // whose signs both take
  auto signs = bn.activations(std::vector<double>(bn.want.x.size(), 7.0));
  auto t = bn.tensors();
  t.y = signs.data();
  normalized_average_pool_forward<N, V>(in, samples, t, bn.residual.data(), fused_y.data(), bn.s);
  CHECK(same_bytes(fused_y.read(), y.read()));

  const extent pooled{in.channels, 1, 1};
  const auto dy = representable_normals<N>(static_cast<std::size_t>(samples) * pooled.size(), 12);
  device_vector<N, emulated> gradient(bn.device, bn.s, to_storage<N>(to_blocked(dy, pooled, V)));
  average_pool_backward<N, V>(in, samples, gradient.data(), bn.gradient.data(), bn.s);
  auto behind = bn.plain(bn.gradient);
  auto saved = bn.saved.read();  // of both
  const auto dx = bn.want.backward(behind, mode);
  auto dgamma = bn.dgamma.read(), dbeta = bn.dbeta.read();
  bn.backward(mode, false, combine);
  const auto separate = bn.gradient.read();
  bn.saved = {bn.device, bn.s, saved};
  bn.dgamma = {bn.device, bn.s, dgamma};
  bn.dbeta = {bn.device, bn.s, dbeta};
  t = bn.tensors();  // the saved rows have moved
  t.y = signs.data();
  auto sum = bn.activations(std::vector<double>(bn.want.x.size(), 7.0));
  normalized_average_pool_backward<N, V>(bn.at, samples, t, bn.count, gradient.data(), sum.data(),
                                         bn.input_gradient.data(), bn.dgamma.data(),
                                         bn.dbeta.data(), mode, combine, bn.s);
  CHECK(same_bytes(sum.read(), separate));
  bn.same_activations("dx", bn.input_gradient, dx);
  bn.same_sums("dgamma", bn.dgamma, bn.want.dgamma);
  bn.same_sums("dbeta", bn.dbeta, bn.want.dbeta);
}

}  // namespace

TEST_CASE_TEMPLATE(
    "normalized_average_pool: y and the sum's gradient have the bits of separate passes, dx and "
    "the parameters' gradients are the CPU's",
    N, half, bfloat, float) {
  for (const extent& in :
       {extent{16, 7, 7}, extent{20, 2, 3}, extent{3, 8, 8}, extent{17, 3, 4}, extent{8, 1, 9}}) {
    check_average<N, 8>(in, 3, write_mode::overwrite, false);
    check_average<N, 24>(in, 2, write_mode::add, true);
  }
  check_average<N, 1>({3, 3, 3}, 5, write_mode::overwrite, false);
  check_average<N, 8>({2048, 2, 4}, 1, write_mode::overwrite, false);
}

TEST_CASE("normalized_average_pool: images need a bit for each pixel, and memory of the sum") {
  static_assert(fits_pooled_signs(6, 2) && !fits_pooled_signs(5, 2));
  static_assert(fits_pooled_signs(3, 4) && !fits_pooled_signs(2, 4));
  static_assert(fits_pooled_signs(64, 2) && !fits_pooled_signs(65, 2));
  CHECK_THROWS_AS(
      (normalized_average_pool_forward<half, 8>(
          {8, 9, 8}, 1, batch_norm_tensors<half, float>{}, static_cast<const half*>(nullptr),
          static_cast<half*>(nullptr), emulated(3).make_stream())),
      usage_error);
}
