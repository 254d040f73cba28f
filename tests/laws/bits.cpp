// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is bit-identical across what, with a real network through the whole trainer: the rows of
// docs/guarantees.md that no folder's own tests cover.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/pad_crop_flip.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

template <Precision P>
using network_of = resnet<8, P, cpu, resnet_options{.image = {1, 8, 8}, .zero_gamma = false}>;

// What a rank holds after four steps of eight samples. Running statistics differ between ranks.
struct outcome {
  std::vector<float> weights, statistics;

  friend bool operator==(const outcome& a, const outcome& b) {
    return same_bits(a.weights, b.weights) && same_bits(a.statistics, b.statistics);
  }
};

template <Precision P = fp32, class Communicator, class Make>
outcome trained(Communicator comm, const Make& make, const trainer_options& options,
                int workers = 1) {
  const synthetic images{.extent = {1, 8, 8}, .classes = 10, .samples = 32, .seed = 3};
  network_of<P> net{cpu{workers}};
  loader feed{images, comm, {.global_batch = 8, .seed = 5}, pad_crop_flip{.pad = 1, .flip = true}};
  trainer run{net, lars{.trust_coefficient = 0.02}, constant{.learning_rate = 0.5}, make(comm),
              options};
  run.fit(feed, 1);
  const auto statistics = run.statistics();
  const auto weights = run.weights().subspan(0, run.weights().size - statistics.size);
  return {{weights.begin(), weights.end()}, {statistics.begin(), statistics.end()}};
}

// The reducers whose order of summation depends on the ranks alone.
constexpr auto make_tree = [](threads comm) { return tree{comm}; };
constexpr auto make_butterfly = [](threads comm) { return butterfly{comm}; };
constexpr auto make_halving_doubling = [](threads comm) { return halving_doubling{comm}; };
constexpr auto make_one_shot = [](threads comm) { return one_shot{comm}; };
constexpr auto make_two_shot = [](threads comm) { return two_shot{comm}; };
constexpr auto make_native = [](threads comm) { return native{comm}; };
constexpr auto make_ring = [](threads comm) { return ring{comm}; };

template <class Make>
outcome on_rank_0(int ranks, const Make& make, const trainer_options& options) {
  const auto by_rank = on_ranks(ranks, [&](threads comm) { return trained(comm, make, options); });
  for (const outcome& o : by_rank) CHECK(same_bits(o.weights, by_rank[0].weights));
  return by_rank[0];
}

const trainer_options whole{.bucket_bytes = 1u << 30}, small{.bucket_bytes = 4096};

template <class Make>
void check_bucket_sizes(const char* name, const Make& make) {
  CAPTURE(name);
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const outcome expected = on_rank_0(ranks, make, whole);
    CHECK(on_rank_0(ranks, make, small) == expected);
    CHECK(on_rank_0(ranks, make, {.bucket_bytes = 1000}) == expected);
  }
}

}  // namespace

TEST_CASE("bits: the bucket size changes none under tree, butterfly, halving_doubling, native") {
  check_bucket_sizes("tree", make_tree);
  check_bucket_sizes("butterfly", make_butterfly);
  check_bucket_sizes("halving_doubling", make_halving_doubling);
  check_bucket_sizes("native", make_native);
}

TEST_CASE("bits: the bucket size changes none under one_shot and two_shot") {
  check_bucket_sizes("one_shot", make_one_shot);
  check_bucket_sizes("two_shot", make_two_shot);
}

TEST_CASE("bits: sharding the master weights, too, changes none of a sharded run") {
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const auto over = [&](bool masters) {
      return on_rank_0(
          ranks,
          [=](threads comm) {
            return sharded{two_shot{comm}, masters};
          },
          small);
    };
    const outcome expected = over(false);
    CHECK(over(true) == expected);
    // lars: norms are sums over ranks, whose roundings reach the weights by the ratio in float
    const outcome whole_update = on_rank_0(ranks, make_two_shot, small);
    double most = 0;
    for (std::size_t i = 0; i < expected.weights.size(); ++i)
      most = std::max(most,
                      static_cast<double>(std::abs(expected.weights[i] - whole_update.weights[i])));
    CHECK(most < 1e-4);
  }
}

TEST_CASE("bits: a second run has those of the first, with overlap and without") {
  trainer_options late = small;
  late.overlap = false;
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const outcome first = on_rank_0(ranks, make_ring, small);
    CHECK(on_rank_0(ranks, make_ring, small) == first);
    CHECK(on_rank_0(ranks, make_ring, late) == first);
  }
}

TEST_CASE_TEMPLATE("bits: the number of workers changes none", P, fp32, int8) {
  const auto make = [](self_comm) { return solo{}; };
  const outcome one = trained<P>(self_comm{}, make, {});
  for (const int workers : {1, 2, 3, 5, 8}) {
    CAPTURE(workers);
    CHECK(trained<P>(self_comm{}, make, {}, workers) == one);
  }
}
