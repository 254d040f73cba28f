// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/protocol.hpp>

using namespace cordee;

static_assert(agreement::loose < agreement::mixing && agreement::mixing < agreement::exact);

namespace {
struct anywhere {};
template <bool Host>
struct memory {
  static constexpr bool host_memory = Host;
};
}  // namespace

TEST_CASE("batch: seeds over the ranks' shares average to one over the global batch") {
  // Sum over samples of seed, divided by the number of ranks, is 1 whatever each rank's share is.
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const int global = 40 + ranks;
    double sum = 0;
    for (int r = 0; r < ranks; ++r) {
      const int count = global * (r + 1) / ranks - global * r / ranks;
      const batch<anywhere> share{
          .pixels = {}, .labels = {}, .count = count, .global = global, .ranks = ranks};
      sum += share.seed() * share.count;
    }
    CHECK(sum / ranks == doctest::Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("batch: a seed is the share times the scale") {
  const batch<anywhere> b{
      .pixels = {}, .labels = {}, .count = 3, .global = 40, .ranks = 4, .loss_scale = 1024};
  CHECK(b.share() == 0.1);
  CHECK(b.seed() == 1024 * 0.1);
}

TEST_CASE("a rule's kernels read its moment where it is told, on a GPU where the view says") {
  const moment told{.rate = 1}, kept{.rate = 2};
  view<float, memory<true>, 0> here;
  view<float, memory<false>, 0> there;
  here.now.data = there.now.data = &kept;
  CHECK(moment_of(here, told) == &told);
  CHECK(moment_of(there, told) == &kept);
}

TEST_CASE("score: adding parts and dividing once is the mean of the whole") {
  score whole{.loss = 6, .top1 = 3, .top5 = 7, .count = 8}, sum{};
  for (const score part : {score{1, 0, 2, 3}, score{5, 3, 5, 5}}) sum += part;
  CHECK(sum.mean_loss() == whole.mean_loss());
  CHECK(sum.accuracy() == whole.accuracy());
  CHECK(sum.top5 == whole.top5);
}

TEST_CASE("score: of no samples, a mean of zero and not a NaN") {
  CHECK(score{}.mean_loss() == 0);
  CHECK(score{}.accuracy() == 0);
}

TEST_CASE("what has not happened yet is zero: steps, rounds, the previous rate") {
  constexpr moment start{};
  static_assert(start.step == 0 && start.applied == 0 && start.round == 0);
  static_assert(start.epoch == 0 && start.rate == 0 && start.previous_rate == 0);
  static_assert(view<float, anywhere, 2>{}.finite && view<float, anywhere, 2>{}.slots.size() == 2);
  static_assert(message<float, anywhere, 0>{}.memory.empty());
}
