// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// SAM and ASAM on emulated GPUs, whose streams run late, beside a CPU's.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/nn/sharpness_aware.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp64.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/device_quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"
#include "tests/train/swapped_runs.hpp"

using namespace cordee;
using namespace support;
using options = detail::nn::sharpness_options;

namespace {

/// Adds 1 to a running statistic.
template <class Real>
struct one_more_op {
  Real* at;
  void operator()(std::size_t) const { *at += 1; }
};
/// The quadratic model with kernels.
template <class P, class D>
struct quadratic_on {
  using precision = P;
  using device = D;
  using stream = typename D::stream;
  using Real = typename P::master;
  using packed_parameters = buffer<Real, D>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  D on;
  double shift = 0, weight = 0;

  static constexpr std::span<const segment> segments() { return t4_table; }
  [[nodiscard]] D get_device() const { return on; }
  void initialize(span_on<Real, D> plane, std::uint64_t) const {
    std::vector<Real> start(plane.size);
    for (std::size_t k = 0; k < t4_start.size(); ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        start[t4_table[k].offset + i] = static_cast<Real>(t4_start[k][i]);
    on.copy(plane.data, start.data(), start.size() * sizeof(Real), stream{});
    on.finish(stream{});
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const { return {on, 320}; }
  void pack_parameters(span_on<Real, D> plane, packed_parameters& to, stream s) const {
    on.copy(to.span().data, plane.data, 320 * sizeof(Real), s);
  }
  void forward(const packed_parameters&, span_on<Real, D> plane, const batch<D>& b, phase p,
               stream s) {
    if (p == phase::train) for_each(s, 1, one_more_op<Real>{plane.data + t4_table[4].offset});
    weight = b.loss_weight() * b.count;
  }
  template <class Ready>
  void backward(const packed_parameters& w, span_on<Real, D> grads, write_mode mode, Ready&& ready,
                stream s) {
    if (mode == write_mode::overwrite) on.clear(grads.data, grads.size * sizeof(Real), s);
    for (std::size_t k = t4_center.size(); k-- > 0;) {
      for_each(s, t4_table[k].size,
               quadratic_gradient_op<Real>{k, w.span().data + t4_table[k].offset,
                                           grads.data + t4_table[k].offset, weight, shift});
      ready(k);
    }
  }
  [[nodiscard]] metrics read_metrics(stream) const { return {0, 0, 0, 1}; }
};

/// Each rank's weights after five steps.
template <class Make>
std::vector<std::vector<double>> trained_by(int ranks, const options& climb, const Make& make) {
  const auto all = on_ranks(ranks, [&](threads comm) {
    auto model = make(comm.rank());
    using D = typename decltype(model)::device;
    sharpness_aware uphill(climb, model);
    trainer run{uphill, sgd{}, [](double) { return 0.1; }, ring{comm}};
    batch<D> one;
    one.count = 1;
    one.global_samples = one.ranks = ranks;
    for (int k = 0; k < 5; ++k) CHECK(run.step(std::span(&one, 1), k).applied);
    return detail::testing::on_host_of(run, run.weights().subspan(0, 256));
  });
  return {all.begin(), all.end()};
}

struct network_run {
  std::vector<double> losses;
  std::vector<float> start, weights;
};
/// Three steps of a network from the same weights; `Climbs`: by SAM.
template <class P, bool Climbs, class D>
auto train_network(const D& device, const options& climb = {.radius = 0.2}) {
  using net = member_net<D, P>;
  std::conditional_t<Climbs, sharpness_aware<net>, net> model{device};
  if constexpr (Climbs) model.sharpness = climb;
  trainer run{model, member_optimizer, member_rate, solo{}, {.loss_scaling = {.initial = 1024}}};
  upload<D> uploaded(device);
  auto feed = make_member_feed();
  network_run out;
  out.start = weights_on_host(run);
  for (int k = 0; k < 3; ++k) {
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), k);
    CHECK(step.applied);
    out.losses.push_back(step.train.mean_loss());
  }
  out.weights = weights_on_host(run);
  return out;
}

}  // namespace

TEST_CASE("sharpness_aware on a GPU, emulated: steps are the CPU's, however late streams run") {
  for (const options& climb : {options{.radius = 0.1}, options{.radius = 0.5, .adaptive = true}})
    for (const int ranks : {1, 2, 3}) {
      const auto shift_of = [&](int rank) { return 0.25 * (rank - 0.5 * (ranks - 1)); };
      const auto host = trained_by(
          ranks, climb, [&](int rank) { return quadratic<fp64>{.shift = shift_of(rank)}; });
      for (const std::uint64_t seed : {0U, 1U, 2U}) {
        const auto on_gpu = trained_by(ranks, climb, [&](int rank) {
          return quadratic_on<fp64, deferred>{.on = deferred(seed), .shift = shift_of(rank)};
        });
        for (const auto& weights : on_gpu) CHECK(same_but_for_rounding(weights, host[0]));
      }
    }
}

TEST_CASE("sharpness_aware on a GPU, emulated: a network's weights are the CPU's") {
  // As in trainer_emulated.cpp, of four layers and three steps of two passes.
  constexpr double roundings = 5 * 5 * 3 * 2;
  const auto host = train_network<fp32, true>(cpu(1)), plain = train_network<fp32, false>(cpu(1));
  const auto late = train_network<fp32, true>(deferred(0)),
             other = train_network<fp32, true>(deferred(2)),
             half_precision = train_network<fp16, true>(deferred(1));
  CHECK(late.weights == other.weights);
  CHECK(way_error(late.weights, host.weights, host.start) < roundings * 0x1p-24);
  CHECK(way_error(half_precision.weights, host.weights, host.start) < roundings * 0x1p-11);
  CHECK(way_error(plain.weights, host.weights, host.start) > 0.05);  // what climbing changes
}

TEST_CASE_TEMPLATE("sharpness_aware: a step's metrics are those before it climbs", D, cpu,
                   deferred) {
  const D device(1);
  const auto uphill = train_network<fp32, true>(device), plain = train_network<fp32, false>(device);
  CHECK(uphill.losses[0] == plain.losses[0]);
  CHECK(uphill.losses[2] != plain.losses[2]);
}

TEST_CASE("sharpness_aware on a GPU, emulated: LookSAM is refused, and nothing is captured") {
  CHECK_THROWS_WITH_AS((train_network<fp32, true>(deferred(1), {.period = 2})),
                       doctest::Contains("is not written for GPUs: use period 1"), usage_error);
  const deferred device(1);
  sharpness_aware<member_net<deferred>> model{device};
  trainer run{model, member_optimizer, member_rate, solo{}, {.capture_graphs = true}};
  CHECK(run.describe_launches().find("this model does not return its captured_arguments") !=
        std::string_view::npos);
}

TEST_CASE("sharpness_aware: a custom_model's metrics are those before it climbs, too") {
  parameter_list list;
  list.add("w", {3});
  custom_model<int> plain{list, [](const int&, model_pass<float, cpu>& pass) {
                            const auto w = pass.weights("w");
                            double loss = 0;
                            for (std::size_t i = 0; i < 3; ++i)
                              loss += static_cast<double>(w[i]) * static_cast<double>(w[i]);
                            if (pass.trains()) {
                              const auto g = pass.gradient("w");
                              for (std::size_t i = 0; i < 3; ++i) g[i] += 2 * w[i];
                            }
                            return metrics{.loss = loss, .top1 = -1, .count = 1};
                          }};
  const int data = 0;
  const auto loss_of = [&](auto model) {
    trainer run{model, sgd{}, [](double) { return 0.1; }, solo{}};
    return run.step(data, 1, 0).train.mean_loss();
  };
  const double loss = loss_of(plain);
  CHECK(loss > 0);
  CHECK(loss_of(sharpness_aware(options{.radius = 0.5}, plain)) == loss);
}
