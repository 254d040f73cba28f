// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of ncclMemAlloc from its allocation to its end, and a trainer whose gradients are in it,
// over the test double of NCCL, which counts what NCCL's guide excludes.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/nccl.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/input/upload.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/nccl_double_gpu.hpp"
#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;
using nccl_double::memory_counts;

static_assert(AllocatesRegisteredOn<nccl, nccl_double_gpu>);
static_assert(!AllocatesRegisteredOn<nccl, cpu> && !AllocatesRegisteredOn<threads, cpu>);

namespace {

using words = span_on<float, nccl_double_gpu>;

memory_counts counts() { return nccl_double::registrable_memory::instance().counts(); }
void reset() { nccl_double::registrable_memory::instance().reset(); }
/// Of so many blocks: registered, deregistered and freed, in this order.
constexpr memory_counts whole_life(int blocks) {
  return {.allocated = blocks, .freed = blocks, .registered = blocks, .deregistered = blocks};
}
words words_of(const std::shared_ptr<void>& memory, std::size_t n) {
  return {static_cast<float*>(memory.get()), n};
}

struct fixed_gpu : nccl_double_gpu {
  [[nodiscard]] static int ordinal() { return 5; }
};

/// Each rank's trainable weights after two steps; f(run) behind them.
template <class O, class Make, class F>
std::vector<std::vector<float>> trained(int ranks, const O& optimizer, const Make& reducer,
                                        const F& f, std::string* message = nullptr) {
  static const synthetic images{
      .extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks));
  const std::string failure = launch_error(ranks, [&](nccl comm) {
    const nccl_double_gpu device;
    tiny<nccl_double_gpu> net{device};
    loader feed{images, comm, {.global_batch = 24, .seed = 1}};
    trainer run{
        net, optimizer, constant{.learning_rate = 0.05}, reducer(comm), {.bucket_bytes = 512}};
    upload<nccl_double_gpu> uploaded(device);
    for (int k = 0; k < 2; ++k)
      CHECK(run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k)).finite());
    const auto trainable = run.weights().subspan(0, run.weights().size - run.statistics().size);
    weights[static_cast<std::size_t>(comm.rank())] =
        copy_to_host<float, nccl_double_gpu>(device, trainable, run.compute());
    f(run);
  });
  if (message != nullptr)
    *message = failure;
  else
    CHECK(failure == "");
  return weights;
}
constexpr auto nothing = [](auto&) {};
constexpr auto by_native = [](nccl comm) { return native{comm}; };

}  // namespace

TEST_CASE("nccl: registered memory is allocated, registered, used, deregistered and freed") {
  for (const int ranks : {2, 3, 5, 8}) {
    CAPTURE(ranks);
    reset();
    const int means = nccl_double::registered_means;
    CHECK(launch_error(ranks, [](nccl comm) {
            std::vector<float> other(4);
            const auto s = nccl_double_gpu::make_stream();
            const auto memory = comm.allocate_registered(nccl_double_gpu{}, 4 * sizeof(float));
            REQUIRE(memory != nullptr);
            for (float& x : other) x = 1;
            for (std::size_t i = 0; i < 4; ++i) words_of(memory, 4).data[i] = 1;
            comm.mean(words{words_of(memory, 4).data + 2, 2}, s);
            comm.mean(words{other.data(), 4}, s);
            CHECK(words_of(memory, 4).data[3] == 1);
            nccl_double_gpu::close(s);
          }) == "");
    CHECK(counts() == whole_life(ranks));
    CHECK(nccl_double::registered_means == means + ranks);
  }
}

TEST_CASE("nccl: memory is freed behind the means that are enqueued on it") {
  reset();
  CHECK(launch_error(2, [](nccl comm) {
          if (comm.rank() == 1) std::this_thread::sleep_for(50ms);
          const auto s = nccl_double_gpu::make_stream();
          {
            const auto memory = comm.allocate_registered(nccl_double_gpu{}, sizeof(float));
            words_of(memory, 1).data[0] = 1;
            comm.enqueue_mean(words_of(memory, 1), s);
          }
          nccl_double_gpu::close(s);
        }) == "");
  CHECK(counts() == whole_life(2));
}

TEST_CASE("nccl: once a mean has been captured, memory is kept for the next of its size") {
  reset();
  CHECK(launch_error(2, [](nccl comm) {
          const nccl_double_gpu device;
          const auto s = nccl_double_gpu::make_stream();
          const void* first = nullptr;
          {
            const auto memory = comm.allocate_registered(device, 2 * sizeof(float));
            first = memory.get();
            nccl_double::capturing = true;
            comm.enqueue_mean(words_of(memory, 2), s);
            nccl_double::capturing = false;
            nccl_double::graph.clear();  // of a trainer, before its memory
          }
          CHECK(counts().freed == 0);
          const auto again = comm.allocate_registered(device, 2 * sizeof(float)),
                     other = comm.allocate_registered(device, 3 * sizeof(float));
          CHECK(again.get() == first);
          CHECK(other.get() != first);
          CHECK(nccl_double::is_registered_memory(first));
          nccl_double_gpu::close(s);
        }) == "");
  CHECK(counts() == memory_counts{.allocated = 4, .freed = 4, .registered = 6, .deregistered = 6});
}

TEST_CASE("nccl: one rank, no bytes, and a device that is not the communicator's have none") {
  reset();
  CHECK(launch_error(1, [](nccl comm) {
          CHECK(comm.allocate_registered(nccl_double_gpu{}, 4) == nullptr);
        }) == "");
  CHECK(launch_error(2, [](nccl comm) {
          CHECK(comm.allocate_registered(nccl_double_gpu{}, 0) == nullptr);
          CHECK_THROWS_AS((void)comm.allocate_registered(fixed_gpu{}, 4), usage_error);
        }) == "");
  CHECK(counts() == memory_counts{});
}

TEST_CASE("nccl: a run that fails deregisters and frees its memory") {
  for (const bool captured : {false, true}) {
    CAPTURE(captured);
    reset();
    const std::string message = launch_error(2, [&](nccl comm) {
      const auto memory = comm.allocate_registered(nccl_double_gpu{}, sizeof(float));
      const auto s = nccl_double_gpu::make_stream();
      words_of(memory, 1).data[0] = 1;
      if (captured) {  // then an abort ends only with the graph, behind this function
        nccl_double::capturing = true;
        comm.enqueue_mean(words_of(memory, 1), s);
        nccl_double::capturing = false;
      }
      struct graph_end {
        ~graph_end() { nccl_double::graph.clear(); }
      } const at_end;
      std::string why = "a fault";
      if (comm.rank() == 0) why = error_message([&] { comm.mean(words_of(memory, 1), s); });
      comm.abort(why.c_str());
      nccl_double_gpu::close(s);
      throw error(why);
    });
    CHECK(contains(message, "rank 1: a fault"));
    CHECK(counts() == whole_life(2));
  }
}

TEST_CASE(
    "nccl: of a run that has failed on another context, memory is not deregistered by a call") {
  reset();
  const int calls = nccl_double::deregistered;
  const std::string message = launch_error(2, [](nccl comm) {
    const auto memory = comm.allocate_registered(nccl_double_gpu{}, sizeof(float));
    if (comm.rank() == 1) throw error("a fault");
    float x = 1;  // a peer that has failed may answer no call
    comm.duplicate(agreement_context).mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
  });
  CHECK(contains(message, "rank 1: a fault"));
  CHECK(nccl_double::deregistered == calls + 1);  // by rank 1, which knew of no failure
  CHECK(counts() == whole_life(2));
}

TEST_CASE("nccl: an error of the allocation ends the run on every rank") {
  reset();
  const std::string message = launch_error(2, [&](nccl comm) {
    if (comm.rank() == 1) nccl_double::available = 1'000;
    const std::shared_ptr<void> memory = comm.allocate_registered(nccl_double_gpu{}, 2'000);
    nccl_double::available = std::size_t{1} << 40;
    float x = 1;
    comm.mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
  });
  nccl_double::last_error = "the double's last error";
  CHECK(contains(message, "rank 1: cuda: ncclMemAlloc of 2,000 bytes"));
  CHECK(contains(message, "use a smaller batch per rank"));
  CHECK(counts() == whole_life(1));
}

TEST_CASE("nccl: a trainer's gradients are in registered memory, and train as a ring's do") {
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    reset();
    const int means = nccl_double::registered_means;
    const auto weights = trained(ranks, sgd{.momentum = 0.9}, by_native, [](auto& run) {
      CHECK(run.arena_bytes() == 3 * run.weights().size * sizeof(float));
      CHECK(nccl_double::is_registered_memory(run.grads().data));
      for (const auto plane : {run.weights(), run.slot(0)})
        CHECK_FALSE(nccl_double::is_registered_memory(plane.data));
    });
    CHECK(counts() == whole_life(ranks));
    CHECK(nccl_double::registered_means >= means + 2 * ranks * 2);  // steps and buckets
    for (const auto& w : weights) CHECK(w == weights[0]);
    CHECK(way_error(
              weights[0],
              trained(
                  ranks, sgd{.momentum = 0.9}, [](nccl comm) { return ring{comm}; }, nothing)[0],
              initial_weights()) < rounding_tolerance);
  }
}

TEST_CASE("nccl: gradients start at zero and are those of the arena with other reducers") {
  reset();
  (void)trained(2, sgd{}, by_native, [](auto& run) {
    trainer other{run.model(), sgd{}, constant{.learning_rate = 0.05}, native{run.comm()}};
    for (const float g : copy_to_host<float, nccl_double_gpu>(run.model().get_device(),
                                                              other.grads(), other.compute()))
      REQUIRE(g == 0);
  });
  CHECK(counts() == whole_life(4));
  reset();
  const auto in_arena = [](auto& run) {
    CHECK(run.grads().data == run.weights().data + run.weights().size);
  };
  (void)trained(
      2, sgd{}, [](nccl comm) { return ring{comm}; }, in_arena);
  (void)trained(2, local_steps{sgd{}, 2}, by_native, in_arena);  // exchanges weights
  (void)trained(1, sgd{}, by_native, in_arena);
  CHECK(counts() == memory_counts{});
}

TEST_CASE("nccl: a trainer that fails leaves no memory behind") {
  reset();
  std::string message;
  (void)trained(
      2, sgd{}, by_native,
      [](auto& run) {
        if (run.comm().rank() == 1) throw error("a fault");
        run.abort_peers_on_throw([&] { run.comm().mean(run.grads(), run.compute()); });
      },
      &message);
  CHECK(contains(message, "rank 1: a fault"));
  CHECK(counts() == whole_life(2));
}
