// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a step of ResNet-50 asks of the CUDA runtime, counted by its double: nvcc's host code of the
// real trainer runs, kernels do not. The numbers depend on the network's table, not on its image.
// More than 300 lines: a second file would compile these trainers again, for minutes.
#include <array>
#include <cctype>
#include <chrono>
#include <limits>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl.hpp>
#include <cordee/cordee.cuh>
#include <cordee/cordee.hpp>

#include "tests/support/cuda_on_host.hpp"
#include "tests/support/cudnn_double.hpp"

using namespace cordee;
using namespace support;

namespace {

// Whose last stage has too few pixels for an average pool in one pass with its block's end: on
// images of 224 x 224 there are two launches less.
constexpr resnet_options small_image{.image = {3, 64, 64}, .classes = 1000};
using resnet50 =
    resnet<50, fp16, gpu, small_image, cudnn_with<cudnn_settings{.fuse_batch_norm = true}>>;
using resnet50_tensor_core = resnet<50, fp16, gpu, small_image, tensor_core>;
using resnet50_int8 = resnet<50, int8, gpu, small_image, tensor_core>;

struct counts {
  std::size_t launches, graphs, executions, variant_packs, copies, clears, waits, pageable,
      pool_calls, allocations, polls, means, captured_means;
};
counts difference(const host_cuda_state& a, const host_cuda_state& b, std::size_t executions,
                  std::size_t variant_packs) {
  return {b.launches - a.launches,
          b.graph_launches - a.graph_launches,
          executions,
          variant_packs,
          b.copies - a.copies,
          b.clears - a.clears,
          b.waits - a.waits,
          b.pageable - a.pageable,
          b.pool_calls - a.pool_calls,
          b.allocations - a.allocations,
          b.polls - a.polls,
          b.means - a.means,
          b.captured_means - a.captured_means};
}

/// Launches of the kernels with this word in their names, so far.
int launches_of(const std::string& word) {
  int sum = 0;
  for (const auto& [name, launches] : host_cuda_counts().kernels)
    if (name.find(word) != std::string::npos) sum += launches;
  return sum;
}

/// The counts of each of eight steps of `accumulate` micro-batches; the loader's part included.
template <class Net = resnet50, class Between, class R = solo>
std::array<counts, 8> count_steps(bool capture_graphs, int accumulate, const Between& between,
                                  const R& reducer = {}, bool synchronize = false,
                                  bool fuses = true) {
  host_cudnn cudnn_double;
  cudnn_double.computes = false;
  cudnn_double.engines[0].fuses = fuses;
  host_state() = cudnn_double;
  detail::ops::cudnn_fused_places::current().clear();
  Net net{gpu{}};
  const synthetic images{.extent = small_image.image, .classes = 1000, .samples = 64};
  loader feed{images, self_comm{}, {.global_batch = 2 * accumulate, .accumulate = accumulate}};
  trainer run{net,
              lars{},
              constant{.learning_rate = 0.1},
              reducer,
              {.capture_graphs = capture_graphs, .batch_norm_over = synchronize ? 0 : 1}};
  upload<gpu> uploaded(net.get_device());
  std::array<counts, 8> out{};
  auto batches = uploaded.to(feed.next(), run.compute());
  for (counts& c : out) {
    between(&c - out.data(), run);
    const host_cuda_state before = host_cuda_counts();
    host_state().executed.clear();
    host_state().variant_packs = 0;
    (void)run.step(batches, 0, [&] { batches = uploaded.to(feed.next(), run.compute()); });
    c = difference(before, host_cuda_counts(), host_state().executed.size(),
                   static_cast<std::size_t>(host_state().variant_packs));
    INFO(c.launches, " launches, ", c.graphs, " graphs, ", c.executions, " executions, ",
         c.variant_packs, " variant packs, ", c.copies, " copies, ", c.clears, " clears, ", c.waits,
         " waits, ", c.pool_calls, " pool calls, ", c.allocations, " allocations");
  }
  return out;
}

constexpr auto nothing = [](auto, auto&) {};

/// From the second step on, replayed or not, memory is asked for by nobody, and no copy blocks the
/// host since it is to pageable memory.
void check_memory(const std::array<counts, 8>& steps) {
  for (std::size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k].pool_calls == 0);
    CHECK(steps[k].allocations == 0);
    CHECK(steps[k].pageable == 0);
  }
}

/// A step of `batch` samples on a GPU that has so many bytes left for it; what it uses of them. A
/// GPU without enough throws.
std::size_t bytes_of_step(int batch, std::size_t left) {
  host_cudnn cudnn_double;
  cudnn_double.computes = false;
  host_state() = cudnn_double;
  auto& memory = host_cuda_counts();
  resnet50 net{gpu{}};
  const synthetic images{.extent = small_image.image, .classes = 1000, .samples = 64};
  loader feed{images, self_comm{}, {.global_batch = batch}};
  trainer run{net, lars{}, constant{.learning_rate = 0.1}, solo{}};
  upload<gpu> uploaded(net.get_device());
  const auto batches = uploaded.to(feed.next(), run.compute());
  (void)cudaMemPoolTrimTo(nullptr, 0);
  const std::size_t before = memory.used;
  memory.memory = before + left;
  struct restored {
    ~restored() { host_cuda_counts().memory = std::size_t{1} << 40; }
  } const at_end;
  (void)run.step(batches, 0);
  // What the plan states, with temporary memory of the stream on top.
  const auto plan = run.plan_memory(batch);
  const auto planned =
      static_cast<double>(plan.bytes("inputs") + plan.bytes("activations") +
                          plan.bytes("gradients of activations") + plan.bytes("workspace"));
  const auto used = static_cast<double>(memory.used - before);
  INFO(used, " bytes, of which planned ", planned);
  CHECK(used >= 0.99 * planned);
  CHECK(used <= 1.5 * planned);
  return memory.used - before;
}

/// The number before `word` in a message, which groups its digits.
std::size_t number_before(const std::string& message, const std::string& word) {
  const std::size_t end = message.find(word);
  REQUIRE(end != std::string::npos);
  std::string digits;
  for (std::size_t k = end; k-- > 0 && (message[k] == ',' || std::isdigit(message[k]) != 0);)
    if (message[k] != ',') digits.insert(0, 1, message[k]);
  return std::stoul(digits);
}
constexpr std::size_t sums = 2 * 53;  // of each batch norm's statistics: forward and backward

/// The same by native over NCCL, as rank 0 of two; its peer takes part in what precedes the steps,
/// since means are counted and not computed.
std::array<counts, 8> count_steps_of_rank(bool capture_graphs, bool synchronize = false) {
  std::array<counts, 8> out{};
  threads::launch(
      2,
      [&](threads host_comm) {
        host_cuda_counts().gpus = 2;
        nccl::launch(
            [&](nccl comm) {
              const native reducer{comm};
              if (comm.rank() == 0) {
                host_cuda_counts().registered = host_cuda_counts().deregistered = 0;
                nccl_double::registered_means = 0;
                auto& memory = nccl_double::registrable_memory::instance();
                memory.reset();
                out = count_steps(capture_graphs, 1, nothing, reducer, synchronize);
                CHECK(host_cuda_counts().registered == 1);  // the plane of gradients
                CHECK(host_cuda_counts().deregistered == 1);
                // kept, where a graph has captured
                const nccl_double::memory_counts as_expected{1, capture_graphs ? 0 : 1, 1, 1};
                CHECK(memory.counts() == as_expected);
                std::size_t means = 0;
                for (const counts& c : out)
                  means += c.means - (synchronize && c.means > 0 ? sums : 0);
                CHECK(nccl_double::registered_means == means);
                return;
              }
              const auto buckets = detail::core::make_buckets(
                  resnet50::segments(),
                  detail::train::bucket_limit_of<gpu, nccl>({}).bytes / sizeof(float));
              const trainer_options options{.batch_norm_over = synchronize ? 0 : 1};
              const struct {
                using device = gpu;
                cross_entropy loss{};
                double dropout_rate = 0;
                double freeze_batch_norm_at = std::numeric_limits<double>::infinity();
                bool batch_norm_moving_average = true;
              } model;
              detail::train::expect_same_trainers(
                  comm, resnet50::segments(), buckets,
                  detail::train::trainer_settings(model, lars{}, constant{.learning_rate = 0.1},
                                                  reducer, options));
              const gpu device;
              buffer<float, gpu> weights(device, resnet50::plane_size());
              detail::comm::broadcast(comm, weights.span(), device.make_stream());
            },
            rendezvous_comm{host_comm}, {.deadline = std::chrono::seconds(60)});
      },
      {.deadline = std::chrono::seconds(60)});
  return out;
}
const std::size_t buckets_of_resnet50 =
    detail::core::make_buckets(resnet50::segments(),
                               detail::train::bucket_limit_of<gpu, nccl>({}).bytes / sizeof(float))
        .size();

}  // namespace

TEST_CASE("ResNet-50, eager: launches, waits and allocations of a step") {
  const auto steps = count_steps(false, 1, nothing);
  check_memory(steps);
  for (std::size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k].launches <= 131);
    CHECK(steps[k].waits == 1);
  }
  CHECK(steps[2].executions == 161);
  for (std::size_t k = 3; k < steps.size(); ++k) CHECK(steps[k].variant_packs == 0);
}

TEST_CASE("ResNet-50, eager: a step whose batch norms cannot be fused") {
  const auto steps = count_steps(false, 1, nothing, solo{}, false, false);
  check_memory(steps);
  for (std::size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k].launches <= 237);
    CHECK(steps[k].waits == 1);
  }
  CHECK(steps[2].executions == 161);
}

TEST_CASE("ResNet-50 by engine tensor_core and in int8, eager: launches and copies of a step") {
  // cudnn's where nothing is fused, without its 8 of unpacking and 53 of statistics, and: of each
  // of 53 convolutions and of the classifier the product and the weight gradient, 53 input
  // gradients with the sums of partial weight gradients, the stem's sum, 8 that unscale buckets. In
  // int8 no scaling, six inputs that no batch norm quantizes, and a classifier of three products in
  // fp32.
  int packs = -launches_of("pack_table_kernel"), quantizes = -launches_of("quantize_table_kernel");
  const auto halves = count_steps<resnet50_tensor_core>(false, 1, nothing);
  CHECK(packs + launches_of("pack_table_kernel") == 9);  // one of them before the first step
  packs = -launches_of("pack_table_kernel");
  const auto bytes = count_steps<resnet50_int8>(false, 1, nothing);
  CHECK(packs + launches_of("pack_table_kernel") == 9);
  CHECK(quantizes + launches_of("quantize_table_kernel") == 9);
  check_memory(halves);
  check_memory(bytes);
  for (std::size_t k = 1; k < halves.size(); ++k) {
    CHECK(halves[k].launches <= 346);
    CHECK(halves[k].copies <= 6);
    CHECK(halves[k].waits == 1);
    CHECK(bytes[k].launches <= 343);
    CHECK(bytes[k].copies <= 8);
    CHECK(bytes[k].waits == 1);  // for the ranges, too
  }
}

TEST_CASE_TEMPLATE("ResNet-50, captured: a step is one graph", Net, resnet50, resnet50_tensor_core,
                   resnet50_int8) {
  // In int8 the host combines the ranges over ranks, and a kernel moves them.
  constexpr bool moves_ranges = std::is_same_v<Net, resnet50_int8>;
  const auto steps = count_steps<Net>(true, 1, nothing);
  check_memory(steps);
  for (std::size_t k = 2; k < steps.size(); ++k) {
    CHECK(steps[k].graphs == 1);
    CHECK(steps[k].launches == (moves_ranges ? 2 : 1));  // with that which begins the step
    CHECK(steps[k].copies == (moves_ranges ? 7 : 5));
    CHECK(steps[k].waits == 1);
  }
}

TEST_CASE("ResNet-50, captured: temporary memory that has moved is not replayed") {
  const auto steps = count_steps(true, 1, [](auto k, auto& run) {
    if (k == 4) run.compute().release(run.compute().allocate(std::size_t{64} << 20));
  });
  for (const std::size_t k : {2U, 3U, 6U, 7U}) CHECK(steps[k].graphs == 1);
  for (const std::size_t k : {0U, 1U, 4U, 5U}) CHECK(steps[k].graphs == 0);
}

TEST_CASE("ResNet-50, eager: accumulated micro-batches cost a pass each, and no further wait") {
  const auto steps = count_steps(false, 2, nothing);
  CHECK(steps[2].executions == 2 * 161);
  CHECK(steps[2].launches < 2 * 131);
  CHECK(steps[2].clears == 0);
  CHECK(steps[2].waits == 1);
  check_memory(steps);
}

TEST_CASE("ResNet-50 out of memory: the error says an upper estimate of the batch that fits") {
  const std::size_t plenty = std::size_t{1} << 40, left = std::size_t{160} << 20;
  std::string message;
  try {
    (void)bytes_of_step(48, left);
  } catch (const error& e) {
    message = e.what();
  }
  CAPTURE(message);
  const std::size_t per_sample = number_before(message, " bytes for each sample");
  const int largest = static_cast<int>(number_before(message, " samples per rank fit"));
  CHECK(number_before(message, " bytes that are free") / per_sample ==
        static_cast<std::size_t>(largest));
  CHECK_THROWS_AS((void)bytes_of_step(largest + 1, left), error);
  CHECK_NOTHROW((void)bytes_of_step(largest / 2, left));
  // Temporary memory, and buffers for gradients beyond two, come on top.
  const std::size_t eight = bytes_of_step(16, plenty) - bytes_of_step(8, plenty);
  CHECK(eight + 256 >= 8 * per_sample);  // the multiple that sizes are rounded up to
  CHECK(eight <= 2 * 8 * per_sample);
}

TEST_CASE("ResNet-50 by native over NCCL, eager: the host waits once a step, and for no bucket") {
  const auto steps = count_steps_of_rank(false);
  check_memory(steps);
  for (std::size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k].means == buckets_of_resnet50);
    CHECK(steps[k].launches <= 131);
    CHECK(steps[k].polls == 1);  // a wait that watches NCCL, too
    CHECK(steps[k].waits == 0);
  }
}

TEST_CASE(
    "ResNet-50 by native over NCCL, captured: a step is one graph, its collectives included") {
  const auto steps = count_steps_of_rank(true);
  std::size_t captured = 0;
  for (const counts& c : steps) captured += c.captured_means;
  CHECK(captured == 2 * buckets_of_resnet50);  // in a graph for each memory of the batch
  check_memory(steps);
  for (std::size_t k = 4; k < steps.size(); ++k) {
    CHECK(steps[k].graphs == 1);
    CHECK(steps[k].launches == 1);  // that which begins the step
    CHECK(steps[k].means == 0);
    CHECK(steps[k].polls == 1);
    CHECK(steps[k].waits == 0);
  }
}

TEST_CASE("ResNet-50 by native over NCCL: shared statistics of batch norms are no round trips") {
  const auto eager = count_steps_of_rank(false, true), replayed = count_steps_of_rank(true, true);
  check_memory(eager);
  check_memory(replayed);
  for (std::size_t k = 1; k < eager.size(); ++k) {
    CHECK(eager[k].means == buckets_of_resnet50 + sums);
    CHECK(eager[k].launches <= 342);  // two more for each of 53 batch norms; the bar is 350
    CHECK(eager[k].polls == 1);
    CHECK(eager[k].waits == 0);
  }
  for (std::size_t k = 4; k < replayed.size(); ++k) {
    CHECK(replayed[k].graphs == 1);
    CHECK(replayed[k].launches == 1);
    CHECK(replayed[k].means == 0);
    CHECK(replayed[k].polls == 1);
    CHECK(replayed[k].waits == 0);
  }
}
