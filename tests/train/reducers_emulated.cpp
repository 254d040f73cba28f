// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks on one emulated GPU, and skipped steps: with work done at once, and as
// late as streams allow.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/low_rank.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/ops/gpu/sign_codes.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"
#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace support;

namespace {

using one_pixel = network<sequential<batch_norm<>, linear<tiny_classes>>, fp32, emulated, reference,
                          extent{2, 1, 1}, tiny_classes>;

/// What a step is refused with; counts[r] are the samples of rank r's micro-batches.
std::string refusal(const std::vector<std::vector<int>>& counts, int over,
                    std::string_view freeze = "", double freeze_at = HUGE_VAL) {
  static constexpr std::array<std::uint8_t, 6> pixels{3, 1, 4, 1, 5, 9};
  static constexpr std::array<std::int32_t, 3> labels{};
  const int ranks = static_cast<int>(counts.size());
  std::int64_t all = 0;
  for (const auto& of_rank : counts)
    for (const int n : of_rank) all += n;
  return error_message([&] {
    on_ranks(ranks, [&](threads comm) {
      one_pixel net{emulated(1)};
      net.freeze_batch_norm_at = freeze_at;
      trainer_options options{.batch_norm_over = over};
      if (!freeze.empty()) options.freeze = freeze;
      trainer run{net, sgd{}, constant{}, native{comm}, options};
      std::vector<batch<emulated>> micro;
      for (const int n : counts[static_cast<std::size_t>(comm.rank())])
        micro.push_back({.pixels = {pixels.data(), 2 * static_cast<std::size_t>(n)},
                         .labels = {labels.data(), static_cast<std::size_t>(n)},
                         .count = n,
                         .global_samples = all,
                         .ranks = ranks});
      return run.step(micro, 1).applied;
    });
  });
}

}  // namespace

TEST_CASE("emulated GPU: every exact reducer gives all ranks the same bits, and the CPU's mean") {
  trains_alike(emulated(1), [](threads comm) { return ring{comm}; });
  trains_alike(emulated(2), [](threads comm) { return tree{comm}; });
  trains_alike(emulated(3), [](threads comm) { return butterfly{comm}; });
  trains_alike(emulated(4), [](threads comm) { return halving_doubling{comm}; });
  trains_alike(emulated(5), [](threads comm) { return native{comm}; });
}

TEST_CASE(
    "emulated GPU: sharded updates, and masters, give all ranks the same bits, and the CPU's "
    "mean") {
  trains_alike(emulated(1), [](threads comm) { return sharded{ring{comm}}; });
  trains_alike(emulated(2), [](threads comm) { return sharded{two_shot{comm}, true}; });
}

TEST_CASE("emulated GPU: power_sgd leaves all ranks with the same bits, near the CPU's") {
  low_rank_alike(emulated(1));
}

TEST_CASE("emulated GPU: decentlam mixes with its neighbours as on the CPU") {
  mixes_alike(emulated(1), [](threads comm) { return gossip{comm}; });
}

TEST_CASE("emulated GPU: ranks without samples have the running statistics of the others") {
  moves_statistics_alike(cpu(1));
  moves_statistics_alike(emulated(1));
  for (const std::uint64_t seed : {0u, 1u}) moves_statistics_alike(deferred(seed));
}

TEST_CASE("emulated GPU: a batch norm of one value over its ranks is refused, as on the CPU") {
  const auto is_refused = [](const std::string& message) {
    return contains(message, "batch norm \"bn1\" takes the variance of 1 value for each of 2");
  };
  CHECK(is_refused(refusal({{1}, {0}}, 0)));
  CHECK(is_refused(refusal({{0}, {1}, {0}}, 0)));
  CHECK(is_refused(refusal({{1, 1}, {1, 0}}, 0)));  // the second micro-batches
  CHECK(is_refused(refusal({{2}, {2}, {0}, {1}}, 2)));
  CHECK(is_refused(refusal({{2}, {2}, {1}}, 2)));  // a last group of one rank
  CHECK(refusal({{1}, {1}}, 0) == "");
  CHECK(refusal({{1, 1}, {1, 1}}, 0) == "");
  CHECK(refusal({{2}, {0}}, 0) == "");
  CHECK(refusal({{1}, {0}}, 0, "bn1") == "");
  CHECK(refusal({{1}, {0}}, 0, "", 1) == "");
}

TEST_CASE("emulated GPU: a step with a NaN is skipped as on the CPU, before the host knows of it") {
  skip_alike(emulated(1));
  for (const std::uint64_t seed : {0u, 1u, 2u}) skip_alike(deferred(seed));
}

TEST_CASE("emulated GPU: late streams train to the same bits as immediate ones") {
  const auto run = [](const auto& device, const auto& optimizer, const auto& reducer) {
    return weights_after(device, 2, optimizer, reducer, 4);
  };
  const auto make_native = [](threads comm) { return native{comm}; };
  const auto make_gossip = [](threads comm) { return gossip{comm}; };
  const auto make_ring = [](threads comm) { return ring{comm}; };
  const lars optimizer{.trust_coefficient = 0.02};
  const decentlam other{.momentum = 0.5};
  const auto means = run(emulated(1), optimizer, make_native),
             mixtures = run(emulated(1), other, make_gossip);
  const overlapped outer{outer_momentum{local_steps{sgd{}, 2}, {.mixing = 0.5}}, 1};
  const auto outer_steps = run(emulated(1), outer, make_ring);
  const auto make_low_rank = [](threads comm) {
    return power_sgd{ring{comm}, {.rank = 1, .min_compression_rate = 1}};
  };
  const auto low_ranks = run(emulated(1), optimizer, make_low_rank);
  constexpr double start = 0.25;  // two of four steps are before
  const auto make_signs = [](threads comm) {
    return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, start};
  };
  const one_bit_adam momenta{.start_epoch = start};
  const auto signs = run(emulated(1), momenta, make_signs);
  CHECK(same_bits(signs[0], signs[1]));
  CHECK(signs[0] != run(emulated(1), momenta, make_ring)[0]);
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    const auto late_outer_steps = run(deferred(seed), outer, make_ring);
    const auto late_low_ranks = run(deferred(seed), optimizer, make_low_rank);
    const auto late_signs = run(deferred(seed), momenta, make_signs);
    const auto late_means = run(deferred(seed), optimizer, make_native),
               late_mixtures = run(deferred(seed), other, make_gossip);
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(same_bits(late_means[r], means[r]));
      CHECK(same_bits(late_outer_steps[r], outer_steps[r]));
      CHECK(same_bits(late_low_ranks[r], low_ranks[r]));
      CHECK(same_bits(late_signs[r], signs[r]));
      CHECK(same_bits(late_mixtures[r], mixtures[r]));
    }
  }
}

TEST_CASE("the host does not wait for a step's kernels, and fetches the next batch meanwhile") {
  const deferred device;
  tiny<deferred> net{device};
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  loader feed{images, self_comm{}, {.global_batch = 6, .seed = 1}};
  trainer run{net, lars{.trust_coefficient = 0.02}, constant{.learning_rate = 0.05}, solo{}};
  upload<deferred> uploaded(device);
  auto next_batches = uploaded.to(feed.next(), run.compute());
  for (int k = 0; k < 3; ++k) {
    std::size_t meanwhile = 0;
    const auto out = run.step(next_batches, feed.epoch(k), [&] {
      meanwhile = device.left();
      next_batches = uploaded.to(feed.next(), run.compute());
    });
    CHECK(out.applied);
    CHECK(meanwhile > 10);     // backward, norms, accept: not waited for
    CHECK(device.left() > 0);  // accept, behind the status that was read
  }
}

TEST_CASE("fit fetches the next batch during a step, and trains as a loop of steps does") {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  const auto trained = [&](const auto& device, bool by_hand) {
    using D = std::remove_cvref_t<decltype(device)>;
    tiny<D> net{device};
    loader feed{images, self_comm{}, {.global_batch = 6, .accumulate = 2, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.05}, solo{}};
    upload<D> uploaded(device);
    if (by_hand)
      for (int k = 0; k < feed.steps(1.5); ++k)
        run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    else
      CHECK(run.fit(feed, 1.5, validation{images, 7}).steps == feed.steps(1.5));
    CHECK(feed.step() == feed.steps(1.5));
    // Four copies in each update, of which the last two are not known to be complete.
    const bool timed = detail::train::EventTimer<D> && !by_hand;
    CHECK(feed.statistics().upload == (timed ? 4.0 * (12 - 2) : 0));
    return copy_to_host<float, D>(device, run.weights(), run.compute());
  };
  const auto expected = trained(emulated(1), true);
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u})
    CHECK(same_bits(trained(deferred(seed), false), expected));
}
