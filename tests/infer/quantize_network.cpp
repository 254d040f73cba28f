// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/infer/quantize_network.hpp>
#include <cordee/ops/entropy_range.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

using net32 = resnet<8, fp32, cpu, small>;
using net8 = resnet<8, int8, cpu, small>;

}  // namespace

TEST_CASE("quantize_network is calibration of the network in int8, for any number of ranks") {
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const auto logits = on_ranks(ranks, [](threads comm) {
      net32 net;
      trainer run{net, sgd{}, steady, ring{comm}};
      auto feed = feed_of(comm);
      run.fit(feed, 2);
      const std::vector<float> before(run.weights().begin(), run.weights().end());
      auto images = feed_of(comm), again = feed_of(comm);
      integer_network integers = quantize_network(run, images, 3);
      CHECK(std::equal(before.begin(), before.end(), run.weights().begin()));

      net8 quantized;
      trainer other{quantized, sgd{}, steady, ring{comm}};
      run.with_mean_model([&] {
        for (const segment& to : net8::segments())
          for (const segment& from : net32::segments())
            if (from.name == to.name)
              std::copy_n(run.weights().data + from.offset, from.size,
                          other.weights().data + to.offset);
        return 0;
      });
      other.adopt_weights();
      calibrate(other, again, 3);
      auto expected = integer_network::from<net8>(other.weights(), feed.normalization());
      CHECK(logits_of(integers) == logits_of(expected));
      return logits_of(integers);
    });
    for (const auto& of_rank : logits) CHECK(of_rank == logits[0]);
    CHECK(logits[0] != std::vector<std::int32_t>(logits[0].size()));
  }
}

TEST_CASE("quantize_network: a choice of ranges is that of calibrate") {
  net32 net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  run.fit(feed, 2);
  auto first = feed_of(self_comm{}), second = feed_of(self_comm{});
  auto extremes = quantize_network(run, first, 3);
  auto entropy = quantize_network(run, second, 3, entropy_range{});
  CHECK(logits_of(extremes) != logits_of(entropy));
}

TEST_CASE("quantize_network: weights that are not finite are refused, all-zero filters are not") {
  net32 net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  run.fit(feed, 1);
  for (std::size_t i = 0; i < 9 * 16; ++i) run.weights("layer1.0.conv1.weight")[i] = 0;
  run.adopt_weights();
  auto images = feed_of(self_comm{});
  auto integers = quantize_network(run, images, 2);
  CHECK(logits_of(integers) != std::vector<std::int32_t>(logits_of(integers).size()));
  run.weights("layer2.0.conv2.weight")[5] = std::numeric_limits<float>::infinity();
  run.adopt_weights();
  CHECK_THROWS_WITH_AS((void)quantize_network(run, images, 2),
                       doctest::Contains("\"layer2.0.conv2.weight\" has a number that is inf"),
                       error);
}
