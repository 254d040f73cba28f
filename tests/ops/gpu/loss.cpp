// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/loss.hpp"

#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace cordee::detail::ops;
using namespace support;

TEST_CASE_TEMPLATE("loss on a GPU, emulated: metrics and gradients equal the CPU's", N,
                   EMULATED_NUMBERS) {
  check_all_sizes<N>(device_fixture{emulated{1}});
  check_extreme_logits<N>(device_fixture{emulated{2}});
}

TEST_CASE("loss on a GPU, emulated: more samples than a block has threads") {
  check_loss_of_batch<float>(device_fixture{emulated{3}}, 7, 259, cross_entropy{0.1});
}

TEST_CASE("loss on a GPU, emulated: no bit depends on the order of threads") {
  const auto z = short_numbers<double>(9 * 11, 1);
  const mixed_labels labels{std::vector<std::int32_t>(9, 4), {}, {}};
  std::vector<double> first, gradient;
  const metric_sums sums =
      loss_on<half>(device_fixture{emulated{1}}, 11, z, labels, cross_entropy{0.1}, 1, &first);
  for (const std::uint64_t seed : {2u, 3u, 4u}) {
    const device_fixture at{emulated{seed}};
    CHECK(loss_on<half>(at, 11, z, labels, cross_entropy{0.1}, 1, &gradient).loss == sums.loss);
    CHECK(gradient == first);
    CHECK(loss_on<half>(at, 11, z, labels, cross_entropy{0.1}, 1, nullptr).loss == sums.loss);
  }
}

TEST_CASE("loss on a GPU, emulated: a scale in device memory multiplies the loss weight") {
  const device_fixture at{emulated{1}};
  const auto z = short_numbers<double>(9 * 11, 1);
  const mixed_labels labels{std::vector<std::int32_t>(9, 4), {}, {}};
  const auto scale = at.put(std::vector<float>{8});
  std::vector<double> scaled, wanted;
  const double loss =
      loss_on<float>(at, 11, z, labels, cross_entropy{0.1}, 0.5, &scaled, scale.span().data).loss;
  CHECK(loss == loss_on<float>(at, 11, z, labels, cross_entropy{0.1}, 4, &wanted).loss);
  CHECK(scaled == wanted);
}

TEST_CASE("loss on a GPU, emulated: an invalid label is reported by the host") {
  check_invalid_label<half>(device_fixture{emulated{1}}, -1);
  check_invalid_label<float>(device_fixture{emulated{2}}, 3);
}

TEST_CASE_TEMPLATE("loss on a GPU, emulated: losses of other kinds equal the CPU's", N, half,
                   double) {
  check_other_losses<N>(device_fixture{emulated{1}});
}
