// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL requires one order of all communicators' operations on every rank, so a trainer has those of
// one communicator in flight at a time. Over the test double of NCCL, which counts the others: a
// launch of launch_nccl with any is an error, in the laws of transports and reducers as well.
#include <chrono>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/comm/transports/nccl.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(!has_concurrent_contexts<nccl>() && !has_concurrent_contexts<subgroup<nccl>>());
static_assert(has_concurrent_contexts<threads>() && has_concurrent_contexts<subgroup<threads>>());

namespace {

void mean_on(const nccl& comm, int context) {
  float x = 1;
  comm.duplicate(context).mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
}

constexpr extent image{1, 6, 6};
using net_type = network<sequential<convolution<8, 3>, batch_norm<relu>, convolution<8, 3>,
                                    batch_norm<relu>, global_average_pool, linear<4>>,
                         fp32, cpu, reference, image, 4>;

/// Six steps with several buckets each.
template <class Make>
std::string trained(int ranks, const Make& make, const trainer_options& options) {
  return launch_error(ranks, [&](nccl comm) {
    static const synthetic images{.extent = image, .classes = 4, .samples = 48, .seed = 3};
    net_type net;
    loader feed{images, comm, {.global_batch = 24, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.05}, make(comm), options};
    CHECK(run.buckets().size() > 2);
    CHECK(run.options().overlap == (options.batch_norm_over == 1));
    run.fit(feed, 3);
  });
}

}  // namespace

TEST_CASE("nccl: the double sees two communicators of a rank in flight at once") {
  const int before = nccl_double::overlapping;
  const std::string message = launch_error(2, [&](nccl comm) {
    if (comm.rank() == 0) {
      std::thread other([&] { mean_on(comm, agreement_context); });
      mean_on(comm, reducer_context);
      return other.join();
    }
    // Neither of rank 0's is complete before this rank takes part.
    for (int k = 0; k < 3000 && nccl_double::overlapping == before; ++k)
      std::this_thread::sleep_for(10ms);
    for (const int context : {agreement_context, reducer_context}) mean_on(comm, context);
  });
  CHECK(contains(message, "launched while another communicator of their GPU had one in flight"));
}

TEST_CASE("nccl: buckets and batch statistics over ranks are never in flight at once") {
  const auto over_ring = [](nccl comm) { return ring{comm}; };
  const auto over_tree = [](nccl comm) { return tree{comm}; };
  for (const int ranks : {2, 3})
    for (const int over : {0, 1, 2}) {
      CAPTURE(ranks);
      CAPTURE(over);
      CHECK(trained(ranks, over_ring, {.bucket_bytes = 512, .batch_norm_over = over}) == "");
    }
  CHECK(trained(3, over_tree, {.bucket_bytes = 512, .batch_norm_over = 0}) == "");
}
