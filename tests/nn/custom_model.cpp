// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/custom_quadratic.hpp"
#include "tests/support/feeds.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(Model<custom_model<int>> && Model<custom_model<std::string, fp64>>);
static_assert(!detail::nn::ImageModel<custom_model<int>>);

TEST_CASE("custom_model: the bits of a model of types, whatever the order of ready") {
  const auto over_ring = [](threads comm) { return ring{comm}; };
  check_same_bits("sgd", sgd{.momentum = 0.9}, over_ring);
  check_same_bits("lamb", lamb{}, over_ring);
}

TEST_CASE("custom_model: the mean is exact over unequal shares, also where a rank has none") {
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      auto model = quadratic_model_of<fp64>();
      trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
      const auto out = run.step(shift{double(comm.rank())}, comm.rank(), 0);
      CHECK(out.train.count == comm.rank());
      return copy(run.weights());
    });
    double mean = 0, samples = 0;
    for (int r = 0; r < ranks; ++r) mean += double(r) * r, samples += r;
    for (std::size_t k = 0; k < t4_center.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i] - mean / samples);
        for (const auto& weights : by_rank)
          CHECK(close(weights[t4_table[k].offset + i], t4_start[k][i] - 0.1 * g, 1e-14));
      }
  }
}

TEST_CASE("custom_model: a scaled loss is unscaled, and an infinity or NaN skips the step on all") {
  const auto by_rank = on_ranks(3, [&](threads comm) {
    auto model = quadratic_model_of<fp16>();
    trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
    const auto first = run.step(shift{0}, 1, 0);
    CHECK(first.loss_scale > 1);
    const float before = run.weights("W1")[0];
    CHECK(before == doctest::Approx(0.5 - 0.1 * (0.5 - 0.4)).epsilon(1e-6));
    for (const double broken : {HUGE_VAL, std::nan("")}) {
      CHECK(!run.step(comm.rank() == 1 ? broken : 0, 1, 1).applied);
      CHECK(run.weights("W1")[0] == before);
    }
    CHECK(run.weights("seen")[0] == 1);
    return 0;
  });
  CHECK(by_rank.size() == 3);
}

TEST_CASE("custom_model: a function that computes in half, with and without a scaled loss") {
  // Half has numbers from 2^-24 to 65,504: a gradient of 2^-30 is 0, 2^5 times the scale infinite.
  const auto steps_of = [](auto precision, double first, double later) {
    using P = decltype(precision);
    std::vector<int> applied;
    threads::launch(2, [&](threads comm) {
      parameter_list list;
      list.add("w", {1});
      custom_model<double, P> model{list, [](double g, model_pass<float, cpu>& pass) {
                                      const auto weight = static_cast<float>(pass.loss_weight());
                                      pass.gradient(0)[0] +=
                                          half::nearest(weight * static_cast<float>(g)).exact();
                                      return metrics{.count = 1};
                                    }};
      trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
      for (int k = 0; k < 8; ++k) {
        const auto out = run.step(k < 4 ? first : later, 1, k);
        if (comm.rank() == 0) applied.push_back(out.applied + (out.applied && run.grads()[0] != 0));
      }
    });
    return applied;
  };
  CHECK(steps_of(fp32{}, 0x1p-30, 0x1p5) == std::vector{1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(steps_of(fp16{}, 0x1p-30, 0x1p5) == std::vector{2, 2, 2, 2, 0, 0, 0, 0});
  CHECK(steps_of(fp16{}, 0x1p5, 0x1p-20) == std::vector{0, 0, 0, 0, 2, 2, 2, 2});
}

TEST_CASE("custom_model: tensors that stay with their owner give the same bits") {
  const auto run_steps = [](bool keeps) {
    return on_ranks(2, [&](threads comm) {
      std::array<double, 4> values{t4_start[0]}, gradient{};
      double seen = 0;
      auto model = quadratic_model_of<fp64>();
      const quadratic_pass<fp64> in_arena;
      custom_model<shift, fp64> kept{
          t4_list(),
          [&](shift own, model_pass<double, cpu>& pass) {
            if (!keeps) return in_arena(own, pass);
            // W1 and seen are the owner's: their gradient replaces that of the last pass
            const double weight = pass.loss_weight() * pass.update().count;
            for (std::size_t i = 0; i < 4; ++i)
              gradient[i] = weight * t4_curvature[0][i] * (values[i] - (t4_center[0][i] + own));
            seen += 1;
            pass.ready("W1");
            for (std::size_t k = 1; k < 4; ++k) {
              for (std::size_t i = 0; i < t4_table[k].size; ++i)
                pass.gradient(k)[i] +=
                    weight * t4_curvature[k][i] * (pass.weights(k)[i] - (t4_center[k][i] + own));
              pass.ready(k);
            }
            return metrics{.loss = 1, .count = pass.update().count};
          },
          cpu{1},
          [](const segment& s, span_on<double, cpu> to, std::uint64_t) {
            for (std::size_t k = 0; k < t4_start.size(); ++k)
              if (t4_table[k].name == s.name)
                for (std::size_t i = 0; i < s.size; ++i) to[i] = t4_start[k][i];
          }};
      if (keeps) kept.keep("W1", values.data(), gradient.data());
      if (keeps) kept.keep("seen", &seen, nullptr);
      trainer run{kept, lamb{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 512}};
      toy_loader feed{.rank_count = 2};
      CHECK(contains(
          describe(run, feed, 1),
          keeps ? "parameters      5 tensors: weight 6 in 2, bias 3 in 2, statistic 1 in 1; 2 with "
                  "their owner: W1, seen; 40 bytes are copied there each update, 40 back each "
                  "micro-batch\n"
                : "; weights and gradients are spans of the arena\n"));
      for (int k = 0; k < 3; ++k) {
        // Two micro-batches, whose gradients are added.
        const shift own = shift_of(comm.rank(), 2);
        std::array<data_batch<shift, cpu>, 2> micro{};
        for (auto& b : micro) b.data = &own, b.count = 1, b.global_samples = 4, b.ranks = 2;
        run.step(micro, k);
        if (keeps) CHECK(values[2] == run.weights("W1")[2]);
      }
      return copy(run.weights());
    });
  };
  const auto in_arena = run_steps(false), kept = run_steps(true);
  for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(kept[r], in_arena[r]));
  CHECK(in_arena[0][t4_table[4].offset] == 6);
}

TEST_CASE("custom_model: an infinity in a statistic of its owner's skips that step, not the next") {
  for (const calls order : {calls::ascending, calls::descending, calls::mixed, calls::none}) {
    CAPTURE(int(order));
    threads::launch(2, [&](threads comm) {
      double seen = 0;
      const quadratic_pass<fp64> pass_of{order};
      custom_model<shift, fp64> model{t4_list(), [&](shift own, model_pass<double, cpu>& pass) {
                                        seen += own == 0 ? HUGE_VAL : 1;
                                        return pass_of(own, pass);
                                      }};
      model.keep("seen", &seen, nullptr);
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
      for (int k = 0; k < 4; ++k) {
        const shift own = k == 1 && comm.rank() == 1 ? 0 : 1;
        CHECK(run.step(own, 1, k).applied == (k != 1));
        CHECK(seen == (k < 1 ? 1 : k));
      }
    });
  }
}

TEST_CASE("custom_model: what the owner writes to a statistic behind the first ready is kept") {
  threads::launch(2, [&](threads comm) {
    double seen = 0;
    const quadratic_pass<fp64> pass_of{calls::descending};
    custom_model<shift, fp64> model{t4_list(), [&](shift own, model_pass<double, cpu>& pass) {
                                      const metrics sums = pass_of(own, pass);
                                      seen += 1;
                                      return sums;
                                    }};
    model.keep("seen", &seen, nullptr);
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    for (int k = 0; k < 3; ++k) run.step(shift{0}, 1, k);
    CHECK(seen == 3);
    CHECK(run.weights("seen")[0] == 3);
  });
}

TEST_CASE("custom_model: the owner's gradient of an earlier pass is not added without samples") {
  threads::launch(2, [](threads comm) {
    double value = 1, gradient = 0;
    parameter_list list;
    list.add("w", {1});
    custom_model<int, fp64> model{list, [&](int slope, model_pass<double, cpu>& pass) {
                                    gradient = pass.loss_weight() * pass.update().count * slope;
                                    return metrics{.count = pass.update().count};
                                  }};
    model.keep("w", &value, &gradient);
    trainer run{model, sgd{.momentum = 0, .weight_decay = 0}, fixed_rate{}, ring{comm}};
    const int slope = 2;
    std::array<data_batch<int, cpu>, 1> micro{};
    for (const int samples : {2, 1}) {
      micro[0].data = &slope;
      micro[0].count = comm.rank() < samples ? 1 : 0;
      micro[0].global_samples = samples;
      micro[0].ranks = 2;
      run.step(micro, 0);
    }
    CHECK(close(value, 1 - 2 * 0.1 * 2, 1e-15));
  });
}

TEST_CASE("custom_model: ranks whose tensors differ are refused at the start, by name") {
  const std::string message = error_message([] {
    threads::launch(3, [](threads comm) {
      parameter_list list;
      list.add("w", {4}).add("v", {comm.rank() == 2 ? 3 : 2});
      custom_model<shift> model{list, [](shift, auto&) { return metrics{}; }};
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    });
  });
  CAPTURE(message);
  CHECK(message.find("\"v\" (2)") != std::string::npos);
  CHECK(message.find("\"v\" (3)") != std::string::npos);
}

TEST_CASE("custom_model: statistics over several ranks are refused") {
  CHECK(contains(error_message([] {
                   threads::launch(2, [](threads comm) {
                     auto model = quadratic_model_of<fp64>();
                     trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.batch_norm_over = 2}};
                   });
                 }),
                 "batch_norm_over requires a network"));
}

TEST_CASE("custom_model: initial weights depend on the seed alone, within 1 / sqrt(fan-in)") {
  parameter_list list;
  list.add("w", {8, 4, 5}).add("g", {3}, kind::scale).add("b", {3}, kind::bias);
  const auto initial = [&](std::uint64_t seed) {
    custom_model<int> model{list, [](int, auto&) { return metrics{}; }};
    std::vector<float> plane(list.plane_size());
    model.initialize({plane.data(), plane.size()}, seed);
    return plane;
  };
  const auto first = initial(1);
  CHECK(same_bits(first, initial(1)));
  CHECK(!same_bits(first, initial(2)));
  float largest = 0;
  for (std::size_t i = 0; i < 160; ++i) largest = std::max(largest, std::abs(first[i]));
  CHECK(largest <= 1 / std::sqrt(20.0f));
  CHECK(largest > 0.9f / std::sqrt(20.0f));
  CHECK(first[list.segments()[1].offset] == 1);
  CHECK(first[list.segments()[2].offset] == 0);
}
