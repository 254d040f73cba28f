// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank of eight allocates of its GPU with ResNet-50's table in fp16, sharded and not: its
// kernels do not run.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/resnet50_table.hpp"
#include "tests/support/idle_device.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct eighth {
  double operator()(double) const { return 0.125; }
};
constexpr resnet_options small{.image = {3, 32, 32}};

/// The error of a step of two ranks, of so many images each in so many bytes; empty if they fit.
/// `needed`: what was allocated in the end.
template <class Make>
std::string error_of_step(const Make& make, int samples, std::size_t bytes,
                          std::size_t* needed = nullptr) {
  return error_message([&] {
    on_ranks(2, [&](threads comm) {
      const idle_device device(bytes);
      resnet<20, fp16, idle_device, small, tensor_core> net{device};
      const synthetic images{.extent = small.image, .classes = 10, .samples = 128};
      loader feed{images, comm, {.global_batch = 2 * samples}};
      trainer run{net, lamb{}, constant{.learning_rate = 0.1}, make(comm)};
      upload<idle_device> uploaded(device);
      (void)run.step(uploaded.to(feed.next(), run.compute()), 0);
      if (needed != nullptr && comm.rank() == 0) *needed = device.count().device_bytes;
      return 0;
    });
  });
}

constexpr auto whole = [](threads comm) { return ring{comm}; };
constexpr auto parts = [](threads comm) { return sharded{ring{comm}}; };

}  // namespace

TEST_CASE("sharded on a GPU: a rank of eight has at most a seventh of slots and master weights") {
  const std::vector<segment> table = bench::resnet50_table();
  std::size_t parameters = 0;
  for (const segment& s : table)
    if (s.kind != kind::statistic) parameters += s.size;
  REQUIRE(parameters == 25'557'032);
  on_ranks(8, [&](threads comm) {
    const idle_device device;
    written_model<fp16, idle_device> model{.table = table, .on = device};
    model.computes = false;
    trainer run{model, lamb{}, eighth{}, sharded{ring{comm}, true}};
    batch<idle_device> one;
    one.count = 1;
    one.global_samples = one.ranks = 8;
    (void)run.step(std::span(&one, 1), 0);
    CHECK(7 * run.shard().bytes() <= 3 * parameters * sizeof(float));  // masters, two slots
    const auto plan = run.plan_memory(1);
    CHECK(plan.total() == device.count().device_bytes);
    CHECK(plan.bytes("optimizer slots") + plan.bytes("this rank's weights") == run.shard().bytes());
    CHECK(plan.bytes("gradients") == 0);  // in the plane of the weights
    if (comm.rank() == 0)
      MESSAGE("" << static_cast<double>(device.count().device_bytes) / double(parameters)
                 << " bytes a parameter on each of eight ranks");
    return 0;
  });
}

TEST_CASE("sharded on a GPU: a batch that does not fit fits so, where the error says it") {
  constexpr int samples = 32;
  std::size_t plain = 0, placed = 0;
  CHECK(error_of_step(whole, samples, ~std::size_t{0}, &plain) == "");
  CHECK(error_of_step(parts, samples, ~std::size_t{0}, &placed) == "");
  REQUIRE(placed < plain);
  const std::size_t between = (placed + plain) / 2;
  const std::string refused = error_of_step(whole, samples, between);
  CAPTURE(refused);
  CHECK(contains(refused, "with sharded: "));
  CHECK(contains(refused, "at the price of an all-gather of the weights"));
  CHECK(error_of_step(parts, samples, between) == "");
  const std::string too_small = error_of_step(whole, samples, placed - (plain - placed) / 2);
  CHECK(contains(too_small, "samples per rank fit"));
  CHECK(!contains(too_small, "sharded"));
  const std::string has_it = error_of_step(parts, samples, placed - (plain - placed) / 2);
  CHECK(contains(has_it, "samples per rank fit"));
  CHECK(!contains(has_it, "with sharded"));
}
