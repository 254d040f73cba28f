// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of the user's own on an emulated GPU, whose streams run as late as they may.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/batch_range.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/describe.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/device_quadratic.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/feeds.hpp"

using namespace cordee;
using namespace support;

static_assert(Model<custom_model<shift, fp64, deferred>>);
static_assert(detail::nn::HasDeviceMetrics<custom_model<shift, fp64, deferred>>);

namespace {

/// Memory of tensor W1 beside the arena.
struct buffer_of_w1 {
  explicit buffer_of_w1(const deferred& d)
      : device(d),
        values(static_cast<double*>(d.allocate(4 * sizeof(double)))),
        gradient(static_cast<double*>(d.allocate(4 * sizeof(double)))) {
    device.copy(values, t4_start[0].data(), 4 * sizeof(double), deferred::stream{});
  }
  buffer_of_w1(const buffer_of_w1&) = delete;
  buffer_of_w1& operator=(const buffer_of_w1&) = delete;
  ~buffer_of_w1() {
    device.release(values);
    device.release(gradient);
  }
  deferred device;
  double *values, *gradient;
};

/// Five updates of two micro-batches, of a rank's own shift.
template <class Run>
void take_steps(Run& run, int rank, int ranks) {
  using batch_type = typename Run::batch_type;
  for (int k = 0; k < 5; ++k) {
    std::array<shift, 2> own{shift_of(rank, ranks), 0.125 * k};
    std::array<batch_type, 2> micro{};
    for (std::size_t i = 0; i < 2; ++i) {
      micro[i].data = &own[i];
      micro[i].count = 1;
      micro[i].global_samples = 2 * ranks;
      micro[i].ranks = ranks;
    }
    CHECK(run.step(micro, k).applied);
  }
}
auto weights_on_cpu(int ranks) {
  return on_ranks(ranks, [&](threads comm) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    take_steps(run, comm.rank(), ranks);
    return copy(run.weights());
  });
}
template <class D>
auto weights_on(const D& device, int ranks, calls order, kernels_on where) {
  return on_ranks(ranks, [&](threads comm) {
    auto model = quadratic_model_on<fp64>(device, order, where);
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    CHECK(run.buckets().size() == 4);
    take_steps(run, comm.rank(), ranks);
    return copy_to_host<double, D>(device, run.weights(), run.compute());
  });
}

}  // namespace

TEST_CASE("emulated GPU: a model of the user's own on late streams, the step's or its own") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto on_cpu = weights_on_cpu(ranks),
               expected = weights_on(emulated{}, ranks, calls::none, kernels_on::step);
    for (std::size_t r = 0; r < expected.size(); ++r)
      CHECK(same_but_for_rounding(expected[r], on_cpu[r]));
    for (const std::uint64_t seed : {0u, 1u, 2u})
      for (const calls order : {calls::descending, calls::mixed, calls::none})
        for (const kernels_on where : {kernels_on::step, kernels_on::own}) {
          CAPTURE(seed);
          CAPTURE(int(order));
          CAPTURE(int(where));
          const auto found = weights_on(deferred(seed), ranks, order, where);
          for (std::size_t r = 0; r < found.size(); ++r) CHECK(same_bits(found[r], expected[r]));
        }
  }
}

TEST_CASE("emulated GPU: a bucket travels while the function of a model of the user's own runs") {
  const deferred device;
  const auto means = on_ranks(2, [&](threads comm) {
    double* first = nullptr;
    bool early = false;
    const shift own = shift_of(comm.rank(), 2);
    auto model = quadratic_model_on<fp64>(device, [&](shift x, model_pass<double, deferred>& pass) {
      // b2's curvature is 1, its center the shift, of which the ranks have opposite ones
      for_each(pass.stream(), 1,
               quadratic_gradient_op<double>{3, pass.weights(3).data, pass.gradient(3).data,
                                             pass.loss_weight(), x});
      pass.ready(3);
      first = pass.gradient(3).data;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!early && std::chrono::steady_clock::now() < end)
        early = std::abs(std::atomic_ref(*first).load() - 0.05) < 1e-12;
      for (const std::size_t k : {2u, 1u, 0u}) pass.ready(k);
      return metrics{.count = 1};
    });
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    run.step(own, 1, 0);
    return early;
  });
  CHECK((means[0] && means[1]));
}

TEST_CASE("emulated GPU: sums of a model's kernels are read without a wait of their own") {
  const deferred device;
  auto model = quadratic_model_on<fp64>(device);
  trainer run{model, sgd{}, fixed_rate{}, solo{}};
  run.step(shift{1}, 2, 0);
  const std::size_t before = device.waits();
  const auto out = run.step(shift{1}, 2, 1);
  CHECK(device.waits() == before + 1);
  CHECK(out.train.loss == 1);
  CHECK(out.train.count == 2);
  CHECK(std::isnan(out.train.accuracy()));
  const auto found = run.evaluate(std::vector<shift>{1, 2}, [](shift) { return 3; });
  CHECK(found.count == 6);
  CHECK(found.loss ==
        2 * copy_to_host<double, deferred>(device, run.weights("W1"), run.compute())[0]);
}

TEST_CASE("emulated GPU: a scaled loss, an infinity and NaN in a model of the user's own") {
  const auto steps_of = [](auto& run, int rank) {
    std::vector<int> applied;
    for (const double own : {0.25, HUGE_VAL, 0.5, std::nan(""), 0.125})
      applied.push_back(run.step(rank == 1 || std::isfinite(own) ? own : 0, 1, 0).applied);
    CHECK(applied == std::vector{1, 0, 1, 0, 1});
  };
  const auto expected = on_ranks(3, [&](threads comm) {
    auto model = quadratic_model_of<fp16>();
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    steps_of(run, comm.rank());
    return copy(run.weights());
  });
  for (const std::uint64_t seed : {0u, 1u}) {
    const deferred device(seed);
    const auto found = on_ranks(3, [&](threads comm) {
      auto model = quadratic_model_on<fp16>(device);
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
      steps_of(run, comm.rank());
      return copy_to_host<float, deferred>(device, run.weights(), run.compute());
    });
    for (std::size_t r = 0; r < 3; ++r) CHECK(same_but_for_rounding(found[r], expected[r]));
  }
}

TEST_CASE("emulated GPU: a tensor that stays in its owner's GPU memory, and one that cannot") {
  const auto expected = weights_on(emulated{}, 2, calls::none, kernels_on::step);
  const deferred device;
  const auto found = on_ranks(2, [&](threads comm) {
    const buffer_of_w1 w1(device);
    device_quadratic_pass<fp64, deferred> pass_of{device.make_stream(), kernels_on::own};
    pass_of.kept_values = w1.values;
    pass_of.kept_gradient = w1.gradient;
    auto model = quadratic_model_on<fp64>(device, pass_of);
    model.keep("W1", w1.values, w1.gradient);
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    toy_loader feed{.rank_count = 2};
    CHECK(contains(describe(run, feed, 1), "1 with their owner: W1; 32 bytes are copied there"));
    take_steps(run, comm.rank(), 2);
    return copy_to_host<double, deferred>(device, run.weights(), run.compute());
  });
  for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(found[r], expected[r]));

  double on_host[4] = {};
  auto model = quadratic_model_on<fp64>(device);
  CHECK(contains(error_message([&] { model.keep("W1", on_host, on_host); }),
                 "keep(\"W1\"): the memory is not that of the model's GPU"));
}

TEST_CASE("emulated GPU: batches of a range count with the samples that all ranks have") {
  const auto fitted = [](auto& model, threads comm) {
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    const std::vector<shift> batches{0.25, double(comm.rank()), 0.5};
    batch_range feed{batches, comm, {.global_batch = 100}, [&](const shift& b) {
                       return comm.rank() + (b == 0.5 ? 2 : 1);
                     }};
    CHECK(run.fit(feed, 2).steps == 6);
    using D = typename std::remove_cvref_t<decltype(model)>::device;
    return copy_to_host<double, D>(model.get_device(), run.weights(), run.compute());
  };
  const auto expected = on_ranks(3, [&](threads comm) {
    auto model = quadratic_model_of<fp64>();
    return fitted(model, comm);
  });
  const auto found = on_ranks(3, [&](threads comm) {
    auto model = quadratic_model_on<fp64>(deferred{});
    return fitted(model, comm);
  });
  for (std::size_t r = 0; r < 3; ++r) CHECK(same_but_for_rounding(found[r], expected[r]));
}

TEST_CASE("emulated GPU: graphs of a model of the user's own are refused") {
  auto model = quadratic_model_on<fp64>(deferred{});
  CHECK(contains(error_message([&] {
                   trainer run{model, sgd{}, fixed_rate{}, solo{}, {.capture_graphs = true}};
                 }),
                 "capture_graphs is for networks of the library's layers"));
}
