// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates by the host beside those of a trainer on the CPU, given the same gradients: on a device
// whose streams run late, with several ranks, and counted on one of ResNet-50's table.
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/resnet50_table.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/linked_device.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct quarter {
  double operator()(double) const { return 0.25; }
};

struct options {
  bool rounds = false, ahead = false;
  int accumulate = 1;
  std::int64_t poisoned = -1;
  std::size_t slice = 0, limit = 400;
};

template <class N>
using bits_of = std::conditional_t<sizeof(N) == 2, std::uint16_t, std::uint32_t>;

/// Weights, slots and loss scale after five steps.
template <class P, class D, class O, class R>
auto train(const D& device, const O& optimizer, const R& reducer, const options& o = {}) {
  written_model<P, D> model{.table = written_table, .on = device};
  model.rounds = o.rounds && D::host_memory;
  model.writes_ahead = o.ahead;
  model.poisoned_step = o.poisoned;
  model.micro_batches = o.accumulate;
  model.slice = o.slice;
  trainer run{model, optimizer, quarter{}, reducer, {.bucket_bytes = o.limit * sizeof(float)}};
  REQUIRE(run.buckets().size() >= 4);
  if (!D::host_memory && o.slice > 0) CHECK(run.buckets().size() == (o.limit < 400 ? 14 : 6));
  const int ranks = reducer.comm.size();
  std::vector<double> scales;
  for (int k = 0; k < 5; ++k) {
    std::vector<batch<D>> micro(static_cast<std::size_t>(o.accumulate));
    for (std::size_t i = 0; i < micro.size(); ++i) {
      micro[i].count = 1;
      micro[i].global_samples = ranks * o.accumulate;
      micro[i].ranks = ranks;
      micro[i].first_sample = reducer.comm.rank() * 64 + static_cast<std::int64_t>(i);
    }
    if (k == 3 && reducer.comm.rank() > 0) micro.clear();  // a rank without samples
    const auto done = run.step(micro, k);
    CHECK(done.applied == (k != o.poisoned));
    scales.push_back(done.loss_scale);
  }
  std::vector<typename P::master> all;
  const auto add = [&](auto plane) {
    const auto host = copy_to_host<typename P::master, D>(device, plane, run.compute());
    all.insert(all.end(), host.begin(), host.end());
  };
  add(run.weights());
  for (int k = 0; k < O::slots; ++k) add(run.slot(k));
  // what kernels read is packed of these weights
  auto fresh = model.make_packed_parameters();
  model.pack_parameters(run.weights(), fresh, run.compute());
  using number = typename written_model<P, D>::number;
  const auto packed =
                 copy_to_host<number, D>(device, run.packed_parameters().span(), run.compute()),
             expected = copy_to_host<number, D>(device, fresh.span(), run.compute());
  for (const segment& s : written_table)
    for (std::size_t i = s.offset; s.kind != kind::statistic && i < s.end(); ++i)
      REQUIRE(std::bit_cast<bits_of<number>>(packed[i]) ==
              std::bit_cast<bits_of<number>>(expected[i]));
  return std::pair(all, scales);
}

template <class P, class O>
void has_the_bits_of_a_cpu(const O& optimizer, options o = {}) {
  const auto host = train<P>(cpu(1), optimizer, solo{}, o);
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    CAPTURE(seed);
    const on_host placed{optimizer, o.rounds, 1};
    CHECK(train<P>(deferred(seed), placed, solo{}, o) == host);
  }
}

const weight_average average{clip{lamb{}, 0.5}, exponential_average{.decay = 0.5}};

}  // namespace

TEST_CASE("on_host: weights and slots have the bits of a CPU's update by the same gradients") {
  has_the_bits_of_a_cpu<fp16>(sgd{.momentum = 0.9, .weight_decay = 0.01});
  has_the_bits_of_a_cpu<bf16>(schedule_free_adamw{.weight_decay = 0.1});  // slots begin as weights
  has_the_bits_of_a_cpu<fp16>(average);
  has_the_bits_of_a_cpu<fp32>(adamp{});  // which has no update on a GPU
}

TEST_CASE("on_host: gradients of several micro-batches are summed on the GPU") {
  has_the_bits_of_a_cpu<fp16>(average, {.accumulate = 4});
}

TEST_CASE("on_host: rounded gradients are those that were rounded where they were computed") {
  has_the_bits_of_a_cpu<fp16>(average, {.rounds = true});
  has_the_bits_of_a_cpu<fp16>(average, {.rounds = true, .accumulate = 2});
}

TEST_CASE("on_host: a gradient that is written two buckets ahead has memory of its own") {
  has_the_bits_of_a_cpu<fp16>(average, {.ahead = true});
  has_the_bits_of_a_cpu<fp16>(average, {.rounds = true, .ahead = true, .accumulate = 2});
}

TEST_CASE("on_host: a gradient in slices, of one bucket each, has the same bits") {
  for (const auto& [slice, limit] : {std::pair(64, 400), std::pair(96, 400), std::pair(32, 130)}) {
    CAPTURE(slice);
    const auto n = static_cast<std::size_t>(slice), most = static_cast<std::size_t>(limit);
    has_the_bits_of_a_cpu<fp16>(average, {.slice = n, .limit = most});
    has_the_bits_of_a_cpu<fp32>(average, {.accumulate = 3, .slice = n, .limit = most});
    has_the_bits_of_a_cpu<bf16>(average,
                                {.rounds = true, .poisoned = 2, .slice = n, .limit = most});
    has_the_bits_of_a_cpu<fp16>(average,
                                {.ahead = true, .accumulate = 2, .slice = n, .limit = most});
  }
}

TEST_CASE("on_host: a step that is not finite changes nothing but the loss scale") {
  has_the_bits_of_a_cpu<fp16>(average, {.poisoned = 2});
  has_the_bits_of_a_cpu<fp16>(average, {.rounds = true, .poisoned = 0});
}

TEST_CASE("on_host: several ranks exchange before they copy, one of them without samples") {
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const auto host =
        on_ranks(ranks, [](threads comm) { return train<fp16>(cpu(1), average, ring{comm}); });
    const auto placed = on_ranks(ranks, [](threads comm) {
      return train<fp16>(deferred(1), on_host{average, false, 1}, ring{comm});
    });
    for (const auto& one : placed) CHECK(one == host[0]);
  }
}

TEST_CASE("on_host: an update without norms has the bits of the GPU's own") {
  const sgd optimizer{.momentum = 0.9, .weight_decay = 0.01};
  CHECK(train<fp32>(deferred(1), on_host{optimizer}, solo{}) ==
        train<fp32>(deferred(1), optimizer, solo{}));
}

TEST_CASE("on_host: bytes on the device and over the link, of ResNet-50's table in fp16") {
  const std::vector<segment> table = bench::resnet50_table();
  const auto parameters = [&] {
    std::size_t n = 0;
    for (const segment& s : table) n += s.size;
    return static_cast<double>(n);
  }();
  struct {
    bool rounds;
    double device, down;
    std::size_t slice;
  } const rows[] = {
      {true, 2.56, 2, 0}, {false, 2.38, 4, 0}, {true, 2.19, 2, 4096}, {false, 2.19, 4, 4096}};
  for (const auto& row : rows) {
    CAPTURE(row.rounds);
    CAPTURE(row.slice);
    const linked_device device;
    auto& count = device.count();
    written_model<fp16, linked_device> model{.table = table, .on = device};
    model.computes = false;
    model.slice = row.slice;
    trainer run{model, on_host{sgd{}, row.rounds, 1}, quarter{}, solo{}};
    batch<linked_device> b;
    b.count = 1;
    b.global_samples = 1;
    (void)run.step(std::array{b}, 0);
    CHECK(run.plan_memory(1).total() == count.device_bytes);
    CHECK(run.plan_memory(1).bytes("gradients") == run.host().device_bytes());
    count.down = count.up = 0;
    (void)run.step(std::array{b}, 0);
    CAPTURE(count.device_bytes);
    CHECK(static_cast<double>(count.device_bytes) <= row.device * parameters);
    CHECK(static_cast<double>(count.device_bytes) >= 0.99 * row.device * parameters);
    CAPTURE(count.down);
    CAPTURE(count.up);
    CHECK(static_cast<double>(count.down) <= 1.02 * row.down * parameters);
    CHECK(static_cast<double>(count.up) <= 1.02 * 2 * parameters);
    CHECK(run.host().bytes_down() <= count.down);
    CHECK(run.host().bytes_up() <= count.up);
    CHECK(run.arena_bytes() == run.host().device_bytes());
    CHECK(run.host().host_bytes() <= count.pinned_bytes);
  }
}

TEST_CASE("on_host: what it cannot do is refused in a sentence") {
  const auto refused = [](const auto& optimizer, const trainer_options& o) {
    written_model<fp32, deferred> model{.table = written_table, .on = deferred(1)};
    return error_message([&] { const trainer run{model, optimizer, quarter{}, solo{}, o}; });
  };
  CHECK(refused(on_host{sgd{}}, {.capture_graphs = true}).find("leave .capture_graphs out") !=
        std::string::npos);
  CHECK(refused(on_host{sgd{}}, {.overlap = false}).find("leave .overlap on") != std::string::npos);
  CHECK(refused(on_host{sgd{}, true}, {}).find("leave it out") != std::string::npos);
  CHECK(refused(on_host{sgd{}, false, -1}, {}).find(".threads") != std::string::npos);
}
