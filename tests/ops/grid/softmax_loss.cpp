// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/softmax_loss.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE_TEMPLATE("softmax_loss on grids: the CPU's score and slopes", N, half, bfloat, float,
                   double) {
  loss_of_all_sizes<N>(bench_on{emulated{1}});
  loss_of_odd_logits<N>(bench_on{emulated{2}});
}

TEST_CASE("softmax_loss on grids: more samples than a block has threads") {
  loss_of_batch<float>(bench_on{emulated{3}}, 7, 259, 0.1);
}

TEST_CASE("softmax_loss on grids: no bit depends on the order of blocks and threads") {
  const auto z = short_numbers<double>(9 * 11, 1);
  const std::vector<std::int32_t> labels(9, 4);
  std::vector<double> first, slopes;
  const score_sums sums = loss_on<half>(bench_on{emulated{1}}, 11, z, labels, 0.1, 1, &first);
  for (const std::uint64_t seed : {2u, 3u, 4u}) {
    const bench_on at{emulated{seed}};
    CHECK(loss_on<half>(at, 11, z, labels, 0.1, 1, &slopes).loss == sums.loss);
    CHECK(slopes == first);
    CHECK(loss_on<half>(at, 11, z, labels, 0.1, 1, nullptr).loss == sums.loss);
  }
}

TEST_CASE("softmax_loss on grids: a scale in the device's memory multiplies the seed") {
  const bench_on at{emulated{1}};
  const auto z = short_numbers<double>(9 * 11, 1);
  const std::vector<std::int32_t> labels(9, 4);
  const auto scale = at.put(std::vector<float>{8});
  std::vector<double> scaled, wanted;
  const double loss = loss_on<float>(at, 11, z, labels, 0.1, 0.5, &scaled, scale.span().data).loss;
  CHECK(loss == loss_on<float>(at, 11, z, labels, 0.1, 4, &wanted).loss);
  CHECK(scaled == wanted);
}

TEST_CASE("softmax_loss on grids: a label that is no class is named by the host") {
  loss_of_no_class<half>(bench_on{emulated{1}}, -1);
  loss_of_no_class<float>(bench_on{emulated{2}}, 3);
}
