// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/step.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;

namespace {

/// As a reducer that sends all gradients at once.
struct whole_plane {
  using communicator_type = threads;
  static constexpr bool single_message = true;
};

/// A transport that is near its full rate from 4 MiB on.
struct slow_start : self_comm {
  static constexpr std::size_t bucket_bytes = std::size_t{4} << 20;
  [[nodiscard]] slow_start duplicate(int) const { return {}; }
};

}  // namespace

TEST_CASE("step_outcome: finite() requires an applied step without a zeroed bucket") {
  CHECK(detail::train::step_outcome{}.finite());
  CHECK_FALSE(detail::train::step_outcome{.applied = false}.finite());
  CHECK_FALSE(detail::train::step_outcome{.zeroed_buckets = 1}.finite());
}

TEST_CASE("trainer_options: the checks are on by default") {
  const trainer_options o;
  CHECK(o.check_finite);
  CHECK(o.check_stability);
  CHECK(o.loss_scaling.initial == 65536);
}

TEST_CASE("trainer_options: by default a GPU's buckets are few, and a CPU's short") {
  const auto sizes = []<class D, class R>(std::type_identity<D>, std::type_identity<R>) {
    const std::size_t limit =
        detail::comm::message_limit<R>(
            detail::train::bucket_limit_of<D, typename R::communicator_type>({}).bytes) /
        sizeof(float);
    std::vector<double> megabytes;
    for (const bucket& b : detail::core::make_buckets(resnet<50, fp32, cpu>::segments(), limit))
      megabytes.push_back(static_cast<double>(b.size * sizeof(float)) / 1e6);
    return megabytes;
  };
  const std::type_identity<ring<threads>> by_ring;
  const auto on_gpu = sizes(std::type_identity<support::emulated>{}, by_ring),
             on_cpu = sizes(std::type_identity<cpu>{}, by_ring);
  // Of 102 MB. The last bucket is what is left.
  for (std::size_t k = 0; k + 1 < on_gpu.size(); ++k)
    CHECK_MESSAGE((on_gpu[k] >= 8 && on_gpu[k] <= 25), on_gpu[k]);
  CHECK(on_gpu.size() <= 8);
  CHECK(on_cpu.size() > 50);
  CHECK(sizes(std::type_identity<cpu>{}, std::type_identity<whole_plane>{}).size() == 1);
}

TEST_CASE(
    "trainer_options: a transport that needs longer buckets states it, and a number overrides") {
  using detail::train::bucket_limit_of;
  const auto bytes = []<class D, class T>(const trainer_options& options) {
    return bucket_limit_of<D, T>(options).bytes;
  };
  constexpr std::size_t MiB = std::size_t{1} << 20;
  CHECK(bytes.operator()<cpu, threads>({}) == MiB);
  CHECK(bytes.operator()<cpu, slow_start>({}) == 4 * MiB);
  CHECK(bytes.operator()<support::emulated, slow_start>({}) == 16 * MiB);  // the GPU's are longer
  CHECK(bytes.operator()<cpu, subgroup<slow_start>>({}) == 4 * MiB);
  CHECK(bytes.operator()<cpu, slow_start>({.bucket_bytes = 4096}) == 4096);
  CHECK(bucket_limit_of<cpu, slow_start>({}).decided_by == "the transport's default");

  resnet<20, fp32, cpu> net;  // of 1.04 MiB
  const auto buckets = [&](const auto& comm, const trainer_options& options) {
    trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}, options};
    return run.buckets().size();
  };
  CHECK(buckets(slow_start{}, {}) == 1);
  CHECK(buckets(slow_start{}, {.bucket_bytes = MiB}) == 2);
}
