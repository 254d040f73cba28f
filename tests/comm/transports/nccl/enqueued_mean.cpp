// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Means that are work of a stream, and the wait for them, over the test double of NCCL.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

namespace {

/// What await_enqueued asks: complete when the host says so, or when the stream is done.
struct pending_work {
  const std::atomic<bool>* done;
  std::uint64_t number = 1;
  [[nodiscard]] bool is_complete() const { return *done; }
  [[nodiscard]] std::uint64_t current() const { return number; }
};

}  // namespace

TEST_CASE("nccl: an enqueued mean returns before another rank has called it") {
  std::promise<void> enqueued;
  const std::string message = launch_error(2, [&](nccl comm) {
    const auto s = nccl_double_gpu::make_stream();
    float* const x = static_cast<float*>(nccl_double_gpu{}.allocate(sizeof(float)));
    *x = comm.rank() == 0 ? 1.0f : 5.0f;
    if (comm.rank() == 1) enqueued.get_future().wait();
    comm.enqueue_mean(span_on<float, nccl_double_gpu>{x, 1}, s);
    if (comm.rank() == 0) enqueued.set_value();
    std::atomic<bool> done{false};
    s.handle->enqueue([&] { done = true; });
    comm.await_enqueued(pending_work{&done});
    CHECK(*x == 3);
    nccl_double_gpu{}.release(x);
    nccl_double_gpu::close(s);
  });
  CHECK(message == "");
}

TEST_CASE("nccl: an enqueued mean is in the graph that is captured when the call returns") {
  const std::string message = launch_error(2, [](nccl comm) {
    const auto s = nccl_double_gpu::make_stream();
    float* const x = static_cast<float*>(nccl_double_gpu{}.allocate(sizeof(float)));
    nccl_double::capturing = true;
    comm.enqueue_mean(span_on<float, nccl_double_gpu>{x, 1}, s);
    nccl_double::capturing = false;
    CHECK(nccl_double::graph.size() == 1);
    nccl_double::graph.clear();
    nccl_double_gpu{}.release(x);
    nccl_double_gpu::close(s);
  });
  CHECK(message == "");
}

TEST_CASE("nccl: the wait for an enqueued mean that another rank does not make is an error") {
  std::promise<void> failed;
  const std::string message = launch_error(
      2,
      [&](nccl comm) {
        if (comm.rank() == 1) return failed.get_future().wait();
        const auto s = nccl_double_gpu::make_stream();
        float x = 1;
        comm.enqueue_mean(span_on<float, nccl_double_gpu>{&x, 1}, s);
        std::atomic<bool> done{false};
        s.handle->enqueue([&] { done = true; });
        const auto describe = [] { return std::string("step 12, bucket 3"); };
        const error_context scope(describe);
        const std::string why = error_message([&] { comm.await_enqueued(pending_work{&done}); });
        CHECK(contains(why,
                       "rank 0 waited 1000 ms for every rank to contribute to a mean on "
                       "context 0"));
        CHECK(contains(why, "(step 12, bucket 3)"));
        CHECK(done);  // nothing is in flight behind the error
        failed.set_value();
        nccl_double_gpu::close(s);
        throw error(why);
      },
      1s);
  CHECK(contains(message, "rank 0: rank 0 waited 1000 ms for every rank"));
}

TEST_CASE("nccl: a rank that fails between enqueueing and waiting leaves nothing in flight") {
  const std::string message = launch_error(2, [&](nccl comm) {
    if (comm.rank() == 1) return;  // takes no part, and has left
    const auto s = nccl_double_gpu::make_stream();
    float x = 1;
    std::atomic<bool> done{false};
    comm.enqueue_mean(span_on<float, nccl_double_gpu>{&x, 1}, s);
    s.handle->enqueue([&] { done = true; });
    CHECK_FALSE(done);
    comm.abort("the loader failed");  // as the trainer does
    CHECK(poll_until([&] { return done.load(); }, 10s, 1ms));
    if (done) nccl_double_gpu::close(s);
  });
  CHECK(contains(message, "rank 0: the loader failed"));
}

TEST_CASE("nccl: computing for longer than the deadline is no failed wait") {
  const std::string message = launch_error(
      1,
      [&](nccl comm) {
        std::atomic<bool> done{false};
        const auto s = nccl_double_gpu::make_stream();
        s.handle->enqueue([&] {
          std::this_thread::sleep_for(1500ms);
          done = true;
        });
        comm.await_enqueued(pending_work{&done, 0});
        CHECK(done);
        nccl_double_gpu::close(s);
      },
      500ms);
  CHECK(message == "");
}

TEST_CASE("nccl: an asynchronous error is thrown by the wait for enqueued means") {
  const std::string message = launch_error(2, [](nccl comm) {
    std::atomic<bool> done{false};
    if (comm.rank() == 1) {
      nccl_double::failing_with = ncclRemoteError;
      nccl_double::failing_rank = 1;
    }
    comm.await_enqueued(pending_work{&done, comm.rank() == 0 ? 1u : 0u});
  });
  nccl_double::failing_rank = -1;
  CHECK(contains(message, "nccl: a mean on context 0: remote process exited"));
}
