// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/quantizing_batch_norm.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Two ghost batches of 13 channels, padded to 16, and the input of the layer before, of more than
/// two chunks.
struct two_batches {
  static constexpr int V = 16, samples = 5;
  static constexpr batch_norm_problem problem{{13, 30, 30}, 3};
  device_fixture<emulated> at;
  std::vector<float> gamma = std::vector<float>(V), beta = gamma, mean = gamma, variance = gamma,
                     saved = std::vector<float>(problem.saved_size(samples, V));
  std::size_t n = samples * problem.in.pixels() * V;
  std::vector<float> x = std::vector<float>(n), residual = x, dy = x,
                     input = std::vector<float>(40'000);

  explicit two_batches(std::uint64_t seed) : at{emulated{seed}} {
    random_sequence draw(3, purpose::test, 1, 0);
    const auto number = [&] { return static_cast<float>(draw.below(2000)) / 500 - 2; };
    for (std::size_t i = 0; i < n; ++i)
      if (i % V < 13) x[i] = number(), residual[i] = number(), dy[i] = number();
    for (float& one : input) one = number();
    for (std::size_t c = 0; c < 13; ++c) gamma[c] = number(), beta[c] = number();
  }
  batch_norm_tensors<float, float> tensors(std::vector<float>& y) {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data()};
  }
};

}  // namespace

TEST_CASE(
    "quantizing_batch_norm: y is that of a batch norm, its bytes those of a pass of their own") {
  for (const bool has_range : {true, false}) {
    two_batches of(has_range ? 1 : 2);
    std::vector<float> y(of.n, 9), wanted = y;
    std::vector<float> range{has_range ? -0.5f : 1, has_range ? 2.5f : -1};
    std::vector<std::uint8_t> bytes(of.n, 7), wanted_bytes = bytes;
    observed_input record, wanted_record;
    const std::size_t filling = of.n / 16 * 3;
    batch_norm_statistics<float, of.V>(of.problem, of.samples, of.tensors(y), of.mean.data(),
                                       of.variance.data(), {}, of.at.s);
    const double count = batch_norm_normalize<float, of.V, epilogue::add_relu>(
        of.problem, of.samples, of.tensors(wanted), of.residual.data(), of.at.s);
    quantize_input(of.n, wanted.data(),
                   {wanted_bytes.data(), range.data(), range.data() + 1, &wanted_record, filling},
                   of.at.s);
    CHECK(batch_norm_normalize_quantizing<of.V, epilogue::add_relu>(
              of.problem, of.samples, of.tensors(y), of.residual.data(),
              {bytes.data(), range.data(), range.data() + 1, &record, filling}, of.at.s) == count);
    CHECK(y == wanted);
    CHECK(bytes == wanted_bytes);
    CHECK(record.observed == wanted_record.observed);
    CHECK(record.quantizer.scale == wanted_record.quantizer.scale);
    CHECK(record.quantizer.zero_point == wanted_record.quantizer.zero_point);
  }
}

TEST_CASE(
    "quantizing_batch_norm: both operands of gradients are those of batch norm, rounded once") {
  two_batches of(3);
  std::vector<float> y(of.n), dx(of.n), dgamma(of.V), dbeta(of.V), wanted_dgamma = dgamma,
                                                                   wanted_dbeta = dgamma;
  batch_norm_forward<float, of.V, epilogue::add_relu>(of.problem, of.samples, of.tensors(y),
                                                      of.residual.data(), of.mean.data(),
                                                      of.variance.data(), {}, of.at.s);
  auto dy = of.dy, wanted_dy = of.dy;
  batch_norm_backward<float, of.V, epilogue::add_relu>(
      of.problem, of.samples, of.tensors(y), 0, wanted_dy.data(), dx.data(), wanted_dgamma.data(),
      wanted_dbeta.data(), write_mode::overwrite, {}, of.at.s);
  const affine_quantizer<float> k = fit_affine(-1.0f, 1.5f, unsigned_bytes);
  std::vector<bfloat> narrow(of.n), operand(of.input.size());
  batch_norm_backward_quantized<of.V, epilogue::add_relu>(
      of.problem, of.samples, of.tensors(y), 0, dy.data(), narrow.data(),
      {of.input.size(), of.input.data(), &k, operand.data()}, dgamma.data(), dbeta.data(),
      write_mode::overwrite, {}, of.at.s);
  const auto rounded = [](float one) { return detail::precision::rounded<bfloat>(one).exact(); };
  for (std::size_t i = 0; i < of.n; ++i) REQUIRE(narrow[i].exact() == rounded(dx[i]));
  for (std::size_t i = 0; i < operand.size(); ++i)
    REQUIRE(operand[i].exact() == rounded(k.fake_quantize(of.input[i])));
  CHECK(dy == wanted_dy);  // the residual's gradient
  CHECK(dgamma == wanted_dgamma);
  CHECK(dbeta == wanted_dbeta);
}
