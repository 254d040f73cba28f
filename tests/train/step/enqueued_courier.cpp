// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/mirrored_comm.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using reducer = native<mirrored_comm>;
using courier_type = detail::train::courier<reducer, float, deferred, true>;
static_assert(detail::comm::EnqueuableOn<reducer, float, deferred>);

constexpr extent image{1, 6, 6};
using net_type = network<
    sequential<convolution<8, 3>, batch_norm<relu>, global_average_pool, batch_norm<>, linear<4>>,
    fp32, deferred, reference, image, 4>;

struct outcome {
  std::vector<float> weights;
  int buckets = 0;
  std::vector<std::size_t> waits, replays;  // of each step
};

/// Eight steps with buckets of 64 numbers, the loader's part included.
template <class R, class O = sgd>
outcome train(const R& r, double learning_rate, bool capture_graphs, std::uint64_t seed,
              const O& optimizer = {.momentum = 0.9, .weight_decay = 0}, bool synchronize = false) {
  const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};
  const deferred device(seed);
  net_type net{device};
  loader feed{images, self_comm{}, {.global_batch = 4}};
  trainer run{net,
              optimizer,
              constant{.learning_rate = learning_rate},
              r,
              {.bucket_bytes = 256,
               .capture_graphs = capture_graphs,
               .batch_norm_over = synchronize ? 0 : 1}};
  outcome out;
  out.buckets = static_cast<int>(run.buckets().size());
  upload<deferred> uploaded(device);
  auto batches = uploaded.to(feed.next(), run.compute());
  for (int k = 0; k < 8; ++k) {
    const std::size_t waits = device.waits(), replays = device.replays();
    (void)run.step(batches, 0, [&] {
      CHECK(device.waits() == waits);  // the host has posted every bucket, and waited for none
      batches = uploaded.to(feed.next(), run.compute());
    });
    out.waits.push_back(device.waits() - waits);
    out.replays.push_back(device.replays() - replays);
  }
  out.weights = copy_to_host<float, deferred>(device, run.weights(), run.compute());
  return out;
}
using counts = std::vector<std::size_t>;

/// Two buckets of a step, posted to a courier; with seed 0 streams run nothing by themselves.
struct courier_fixture {
  deferred device;
  reducer mean{};
  courier_type carrier{mean, device, 2};
  deferred::stream compute = device.make_stream();
  buffer<float, deferred> memory{device, 2};
  bucket first, second;

  explicit courier_fixture(std::uint64_t seed = 0) : device(seed) {
    second.index = 1;
    device.finish(compute);
  }
  void step(std::int64_t number) {
    const step_info info{.step = number};
    carrier.begin_step(info);
    for (const bucket* b : {&first, &second}) {
      float* const x = memory.span().data + b->index;
      compute.submit([x] { *x += 1; });  // backward
      carrier.post({{b, {x, 1}, {}, {}}, info}, compute);
    }
    carrier.finish(compute);
  }
};

}  // namespace

TEST_CASE("enqueued_courier: buckets are exchanged behind backward and before what follows") {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    courier_fixture f(seed);
    const std::size_t waits = f.device.waits();
    f.step(0);
    float* const x = f.memory.span().data;
    f.compute.submit([x] { x[0] *= 10; });  // accept
    CHECK(f.device.waits() == waits);
    f.carrier.wait(f.device.record(f.compute));
    CHECK(x[0] == 20);
    CHECK(x[1] == 2);
  }
}

TEST_CASE(
    "enqueued_courier: the device says which bucket it exchanges, and which it has finished") {
  courier_fixture f;
  CHECK(f.carrier.last_finished() == "last finished: nothing");
  f.step(7);
  CHECK(f.carrier.last_finished() == "last finished: nothing");
  CHECK(f.carrier.completed().empty());
  f.carrier.wait(f.device.record(f.compute));
  CHECK(f.carrier.last_finished() == "last finished: step 7, round 0, bucket 1 (4 bytes)");
  const auto done = f.carrier.completed();
  CHECK(done.size() == 2);
  CHECK(done[1].count == 2);
  f.carrier.begin_step({.step = 8});
  CHECK(f.carrier.last_finished() == "last finished: step 7, round 0, bucket 1 (4 bytes)");
}

TEST_CASE("enqueued_courier: a failed wait names step and bucket, replayed or not") {
  courier_fixture f;
  f.step(3);
  f.carrier.wait(f.device.record(f.compute));
  f.mean.comm.seen->stuck = true;
  const auto failure = [&] {
    return error_message([&] { f.carrier.wait(f.device.record(f.compute)); });
  };
  f.step(4);
  CHECK(failure() ==
        "stuck (step 4, round 0, bucket 0 (4 bytes); last finished: step 3, round 0, bucket 1 (4 "
        "bytes))");
  f.device.finish(f.compute);
  f.carrier.begin_step({.step = 5});
  f.carrier.replayed();
  CHECK(failure() ==
        "stuck (step 5, round 0, bucket 0 (4 bytes); last finished: step 4, round 0, bucket 1 (4 "
        "bytes))");
}

TEST_CASE("enqueued_courier: a step waits once, and replayed it is one graph with its exchanges") {
  const outcome alone = train(solo{}, 0.2, false, 0);
  CHECK(alone.buckets > 2);
  for (const bool capture_graphs : {false, true})
    for (const std::uint64_t seed : {0u, 1u, 2u}) {
      const reducer mean{};
      const outcome ranks = train(mean, 0.1, capture_graphs, seed);
      CHECK(ranks.weights == alone.weights);  // twice the gradient is half the learning rate
      for (const std::size_t n : ranks.waits) CHECK(n <= 1);
      if (seed == 0) CHECK(ranks.waits == counts(8, 1));  // nothing runs before the host waits
      if (capture_graphs) {
        CHECK(ranks.replays == counts{0, 0, 1, 1, 1, 1, 1, 1});
        CHECK(mean.comm.seen->means == 4 * ranks.buckets);  // two steps one by one, two captures
      } else {
        CHECK(ranks.replays == counts(8, 0));
        CHECK(mean.comm.seen->means == 8 * ranks.buckets);
      }
    }
}

TEST_CASE("enqueued_courier: where the exchange ends a step, the host waits for it there") {
  const local_steps every_other{sgd{.momentum = 0.9, .weight_decay = 0}, 2};
  const counts most{1, 2, 1, 2, 1, 2, 1, 2};
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const reducer mean{};
    const outcome local = train(mean, 0.1, true, seed, every_other);
    if (seed == 0) CHECK(local.waits == most);  // nothing runs before the host waits
    for (std::size_t k = 0; k < most.size(); ++k) CHECK(local.waits[k] <= most[k]);
    CHECK(mean.comm.seen->means == 4 * local.buckets);
  }
}

TEST_CASE("enqueued_courier: batch norm's statistics over ranks are work of the step's stream") {
  const sgd optimizer{.momentum = 0.9, .weight_decay = 0};
  const reducer one_by_one{}, captured{};
  const outcome eager = train(one_by_one, 0.1, false, 0, optimizer, true);
  CHECK(eager.waits == counts(8, 1));
  CHECK(one_by_one.comm.seen->sums == 8 * 2 * 2);  // of two batch norms: forward, backward
  const outcome replayed = train(captured, 0.1, true, 2, optimizer, true);
  CHECK(replayed.weights == eager.weights);
  CHECK(replayed.replays == counts{0, 0, 1, 1, 1, 1, 1, 1});
  CHECK(captured.comm.seen->sums == 4 * 2 * 2);
}

TEST_CASE("enqueued_courier: one value of all ranks is refused before a sum of it is enqueued") {
  const deferred device(0);
  const reducer mean{};
  net_type net{device};
  trainer run{net, sgd{}, constant{}, mean, {.capture_graphs = true, .batch_norm_over = 0}};
  const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};
  upload<deferred> uploaded(device);
  const auto step = [&](int samples) {
    loader feed{images, self_comm{}, {.global_batch = samples}};
    return error_message([&] { run.step(uploaded.to(feed.next(), run.compute()), 0); });
  };
  CHECK(step(4) == "");
  const int sums = mean.comm.seen->sums;
  CHECK(
      contains(step(1), "batch norm \"bn2\" takes the variance of 1 value for each of 8 channels"));
  CHECK(mean.comm.seen->sums == sums);
}
