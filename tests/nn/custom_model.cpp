// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(Model<custom_model<int>> && Model<custom_model<std::string, fp64>>);
static_assert(!detail::nn::ImageModel<custom_model<int>>);

namespace {

/// The distance of a rank's centers from T4's.
using shift = double;

parameter_list t4_list() {
  parameter_list list;
  for (const segment& s : t4_table) list.add(std::string(s.name), {std::int64_t(s.size)}, s.kind);
  return list;
}

/// In which order a pass calls ready.
enum class calls { ascending, descending, mixed, none };

template <class P>
struct quadratic_pass {
  calls order = calls::mixed;

  /// What quadratic<P> computes, in the same order.
  metrics operator()(shift own, model_pass<typename P::master, cpu>& pass) const {
    using Real = typename P::master;
    if (!pass.trains())
      return {.loss = double(pass.weights("W1")[0]), .count = pass.update().count};
    const double weight = pass.loss_weight() * pass.update().count;
    for (std::size_t k = 0; k < t4_center.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        pass.gradient(k)[i] += static_cast<Real>(
            weight * t4_curvature[k][i] * (double(pass.weights(k)[i]) - (t4_center[k][i] + own)));
    pass.weights("seen")[0] += 1;
    std::array<std::size_t, 4> all{0, 1, 2, 3};
    if (order == calls::descending) std::reverse(all.begin(), all.end());
    if (order == calls::mixed) all = {2, 0, 3, 1};
    if (order != calls::none)
      for (const std::size_t k : all) pass.ready(k);
    return {.loss = 1, .count = pass.update().count};
  }
};

template <class P>
custom_model<shift, P> quadratic_model_of(calls order = calls::mixed) {
  using Real = typename P::master;
  return {t4_list(), quadratic_pass<P>{order}, cpu{1},
          [](const segment& s, span_on<Real, cpu> to, std::uint64_t) {
            for (std::size_t k = 0; k < t4_start.size(); ++k)
              if (t4_table[k].name == s.name)
                for (std::size_t i = 0; i < s.size; ++i) to[i] = static_cast<Real>(t4_start[k][i]);
          }};
}

shift shift_of(int rank, int ranks) { return 0.25 * (rank - 0.5 * (ranks - 1)); }

struct fixed_rate {
  double operator()(double) const { return 0.1; }
};

/// The weights by rank after five steps, of the library's own model and of the function.
template <class O, class Make>
void check_same_bits(const char* name, const O& optimizer, const Make& make) {
  INFO(name);
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const trainer_options options{.bucket_bytes = 512};
    const auto expected = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = shift_of(comm.rank(), ranks)};
      trainer run{model, optimizer, fixed_rate{}, make(comm), options};
      for (int k = 0; k < 5; ++k) run.step(std::array{one_each(ranks)}, k);
      return copy(run.weights());
    });
    for (const calls order : {calls::ascending, calls::descending, calls::mixed, calls::none}) {
      const auto found = on_ranks(ranks, [&](threads comm) {
        auto model = quadratic_model_of<fp64>(order);
        trainer run{model, optimizer, fixed_rate{}, make(comm), options};
        for (int k = 0; k < 5; ++k) run.step(shift_of(comm.rank(), ranks), 1, k);
        return copy(run.weights());
      });
      for (std::size_t r = 0; r < found.size(); ++r) CHECK(same_bits(found[r], expected[r]));
    }
  }
}

}  // namespace

TEST_CASE("custom_model: the bits of a model of types, whatever the order of ready") {
  const auto over_ring = [](threads comm) { return ring{comm}; };
  check_same_bits("sgd", sgd{.momentum = 0.9}, over_ring);
  check_same_bits("lamb", lamb{}, over_ring);
  check_same_bits("adamw, tree", adamw{}, [](threads comm) { return tree{comm}; });
  check_same_bits("local_steps", local_steps{sgd{}, 2}, over_ring);
  check_same_bits("decentlam", decentlam{}, [](threads comm) {
    return gossip{comm, topologies::ring{}};
  });
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

TEST_CASE("custom_model: a scaled loss is unscaled, and its overflow skips the step on all ranks") {
  const auto by_rank = on_ranks(3, [&](threads comm) {
    auto model = quadratic_model_of<fp16>();
    trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
    const auto first = run.step(shift{0}, 1, 0);
    CHECK(first.loss_scale > 1);
    const float before = run.weights("W1")[0];
    CHECK(before == doctest::Approx(0.5 - 0.1 * (0.5 - 0.4)).epsilon(1e-6));
    const shift broken = comm.rank() == 1 ? std::numeric_limits<double>::infinity() : 0;
    CHECK(!run.step(broken, 1, 1).applied);
    CHECK(run.weights("W1")[0] == before);
    CHECK(run.weights("seen")[0] == 1);
    return 0;
  });
  CHECK(by_rank.size() == 3);
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
      CHECK(kept.describe_parameters() ==
            (keeps ? "weights and gradients stay with their owner: 40 bytes are copied each way a "
                     "step"
                   : "weights and gradients are spans of the arena"));
      trainer run{kept, lamb{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 512}};
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

TEST_CASE("custom_model: what a pass leaves out or repeats is an error by name") {
  const auto message_of = [](auto&& f) {
    return error_message([&] {
      threads::launch(1, [&](threads comm) {
        custom_model<shift, fp64> model{t4_list(), [&](shift, model_pass<double, cpu>& pass) {
                                          f(pass);
                                          return metrics{.count = 1};
                                        }};
        trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
        run.step(shift{0}, 1, 0);
      });
    });
  };
  const auto contains = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(message_of([](auto& pass) { pass.ready("W2"); }),
           "the pass ended without ready(\"W1\"): call it for every trainable tensor, or for none");
  contains(message_of([](auto& pass) { pass.ready("W2"), pass.ready("W2"); }),
           "ready(\"W2\") was called twice in one pass");
  contains(message_of([](auto& pass) { pass.ready("seen"); }),
           "ready(\"seen\") is of a statistic, which has no gradient");
  contains(message_of([](auto& pass) { (void)pass.gradient("seen"); }), "of trainable tensors");
  contains(message_of([](auto& pass) { (void)pass.weights("w1"); }),
           "no tensor is named \"w1\"; there are W1, b1, W2, b2, seen");
  contains(error_message([] { custom_model<shift>({}, [](shift, auto&) { return metrics{}; }); }),
           "the list of parameters is empty");
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

TEST_CASE("custom_model: frozen tensors keep their bits, and the pass can know it") {
  threads::launch(2, [](threads comm) {
    const quadratic_pass<fp64> pass_of;
    custom_model<shift, fp64> model{t4_list(), [&](shift own, model_pass<double, cpu>& pass) {
                                      CHECK(pass.is_frozen(0));
                                      CHECK(!pass.is_frozen(1));
                                      return pass_of(own, pass);
                                    }};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.freeze = "W1"}};
    const auto before = copy(run.weights("W1"));
    const double moved = run.weights("b1")[0];
    run.step(shift{0}, 1, 0);
    CHECK(same_bits(copy(run.weights("W1")), before));
    CHECK(run.weights("b1")[0] != moved);
  });
}

TEST_CASE("custom_model: evaluation calls the function without gradients, of all ranks' batches") {
  threads::launch(3, [](threads comm) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    const std::vector<shift> own(static_cast<std::size_t>(comm.rank()), 0.0);
    const metrics found = run.evaluate(own, [](shift) { return 2; });
    CHECK(found.count == 6);
    CHECK(found.loss == 3 * 0.5);
  });
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
