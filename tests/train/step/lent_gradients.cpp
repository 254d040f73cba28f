// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/lent_gradients.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using cordee::detail::train::LendsGradients;

namespace {

using base = custom_model<double, fp64>;

/// Backward moves the gradients to memory of its own, where it may, and leaves NaN in the plane.
struct lending_model : base {
  using base::base;

  void backward(const packed_parameters& values, cordee::detail::device::plane_part<double, cpu> to,
                write_mode mode, const std::function<void(std::size_t)>& ready, stream s) {
    plane = to.numbers;
    const auto lend_before = [&](std::size_t k) {  // the first call follows the whole pass
      if (may && own.empty()) {
        own.assign(plane.begin(), plane.end());
        for (double& g : plane) g = std::numeric_limits<double>::quiet_NaN();
        ++lent_passes;
      }
      ready(k);
    };
    base::backward(values, to, mode, lend_before, s);
  }
  lending_model& gradient_lender() { return *this; }
  void lend_gradients(bool on) {
    may = on;
    own.clear();
  }
  double* lent_gradient(std::size_t k) {
    return own.empty() ? nullptr : own.data() + segments()[k].offset;
  }
  void return_gradients() {
    for (std::size_t i = 0; i < own.size(); ++i) plane[i] = own[i];
    own.clear();
  }

  std::vector<double> own;
  span_on<double, cpu> plane;
  bool may = false;
  int lent_passes = 0;
};
static_assert(LendsGradients<lending_model> && !LendsGradients<base>);

constexpr double overflowing = 7, infinity = std::numeric_limits<double>::infinity();

template <class M>
M make_model() {
  parameter_list list;
  list.add("a", {40'000}).add("b", {3}, kind::bias).add("seen", {2}, kind::statistic);
  return M(list, [](const double& target, model_pass<double, cpu>& pass) {
    metrics sums{.count = 1};
    if (pass.trains()) pass.weights("seen")[1] = target == overflowing ? infinity : target;
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < pass.weights(k).size; ++i) {
        const double off = pass.weights(k)[i] - target;
        sums.loss += off * off / 2;
        if (pass.trains()) pass.gradient(k)[i] += pass.loss_weight() * off;
      }
    return sums;
  });
}

struct result {
  std::vector<double> weights, grads;
  double norm;
  int lent_passes;
};
template <class M>
result train(int ranks, std::size_t micro) {
  return on_ranks(ranks, [&](threads comm) {
    M model = make_model<M>();
    trainer run{model, sgd{.weight_decay = 0.1}, constant{.learning_rate = 0.1}, ring{comm}};
    const double target = 0.5, spoiled = std::nan("");
    std::vector<data_batch<double, cpu>> batches(micro);
    for (auto& b : batches) {
      b.data = &target;
      b.count = 1;
      b.ranks = ranks;
      b.global_samples = ranks * std::ssize(batches);
    }
    for (int k = 0; k < 3; ++k) CHECK(run.step(batches, 0).applied);
    for (const double* const refused : {&spoiled, &overflowing}) {
      for (auto& b : batches) b.data = refused;
      CHECK(!run.step(batches, 0).applied);
      CHECK(run.statistics()[1] == target);
    }
    for (auto& b : batches) b.data = &target;
    CHECK(run.step(std::span(batches).first(0), 0).applied);
    const double norm = run.step(batches, 0).squared_global_norm;
    const auto grads = run.grads();
    result out{{run.weights().begin(), run.weights().end()}, {grads.begin(), grads.end()}, norm, 0};
    if constexpr (LendsGradients<M>) out.lent_passes = model.lent_passes;
    return out;
  })[0];
}

}  // namespace

TEST_CASE("lent_gradients: on one rank they are read where they are, with the same bits") {
  for (const int ranks : {1, 2})
    for (const std::size_t micro : {1u, 2u}) {
      CAPTURE(ranks);
      CAPTURE(micro);
      const result expected = train<base>(ranks, micro), lent = train<lending_model>(ranks, micro);
      CHECK(lent.lent_passes == (ranks == 1 && micro == 1 ? 6 : 0));
      CHECK(lent.weights == expected.weights);
      CHECK(lent.grads == expected.grads);
      CHECK(lent.norm == expected.norm);
    }
}
