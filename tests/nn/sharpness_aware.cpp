// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors of SAM, ASAM and LookSAM through the trainer (tests/support/optimizer_goldens.py),
// and passes of a network.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/nn/sharpness_aware.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using options = detail::nn::sharpness_options;

namespace {

using uphill_quadratic = sharpness_aware<quadratic<fp64>>;
static_assert(Model<uphill_quadratic> && detail::nn::HasModelState<uphill_quadratic>);

std::vector<t4_vectors> trained(int ranks, const options& climb, const std::vector<double>& rates,
                                std::size_t stop = std::numeric_limits<std::size_t>::max()) {
  const auto by_rank = on_ranks(ranks, [&](threads comm) {
    const auto make = [&] {
      return uphill_quadratic(climb, {.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))});
    };
    uphill_quadratic first = make(), second = make();
    trainer run{first, sgd{}, learning_rates(rates), ring{comm}};
    trainer resumed{second, sgd{}, learning_rates(rates), ring{comm}};
    for (std::size_t k = 0; k < rates.size(); ++k) {
      auto& now = k < stop ? run : resumed;
      if (k == stop) {
        for (const auto& [from, to] :
             {std::pair{run.weights(), resumed.weights()}, std::pair{run.slot(0), resumed.slot(0)}})
          std::copy(from.begin(), from.end(), to.begin());
        resumed.restore(run.state());
      }
      now.step(std::array{one_each(ranks)}, static_cast<double>(k));
    }
    auto& last = stop < rates.size() ? resumed : run;
    t4_vectors out;
    for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(last.weights(), k));
    return out;
  });
  return {by_rank.begin(), by_rank.end()};
}

void reaches(const options& climb, const std::vector<double>& rates,
             const std::array<t4_vectors, 3>& expected) {
  for (std::size_t n = 0; const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    for (const t4_vectors& weights : trained(ranks, climb, rates))
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < expected[n][k].size(); ++i) {
          CAPTURE(weights[k][i]);
          CHECK(close(weights[k][i], expected[n][k][i], golden_tolerance<fp64>));
        }
    ++n;
  }
}

}  // namespace

TEST_CASE("sharpness_aware reaches SAM's, ASAM's and LookSAM's golden vectors") {
  reaches({.radius = 0.1}, {0.1, 0.1, 0.05},
          {t4_vectors{{0.457780490514, -0.136485573538, 0.105995702051, -0.323838873001},
                      {0.042219509486, -0.0452716396931},
                      {0.936232948463, -1.94679718172},
                      {0.028890245257}},
           t4_vectors{{0.459466438913, -0.133075064132, 0.118020255961, -0.313401268945},
                      {0.0432342893735, -0.0381246047409},
                      {0.936892140134, -1.94684709917},
                      {0.0304084015281}},
           t4_vectors{{0.460038788594, -0.133241421842, 0.125757401147, -0.308134993211},
                      {0.0433202529671, -0.0348822314801},
                      {0.937187690429, -1.94691784878},
                      {0.0308591546871}}});
  reaches({.radius = 0.5, .adaptive = true}, {0.1, 0.1, 0.05},
          {t4_vectors{{0.454947320765, -0.142289112931, -0.0646012316931, -0.283615656852},
                      {0.0603706003929, -0.174349440792},
                      {0.920799540259, -1.91664778575},
                      {0.0198146998035}},
           t4_vectors{{0.45831352419, -0.139989297405, -0.0378722246864, -0.282963287641},
                      {0.067072734192, -0.137511120896},
                      {0.926215441519, -1.91922706707},
                      {0.0310711438514}},
           t4_vectors{{0.459582270386, -0.139508097571, -0.0204341607481, -0.282360126582},
                      {0.0688612918154, -0.118968638779},
                      {0.928464219791, -1.92079288736},
                      {0.0351636230009}}});
  reaches({.radius = 0.1, .period = 2}, {0.1, 0.1, 0.1, 0.1, 0.1},
          {t4_vectors{{0.462060710899, -0.0588293301893, -0.271829379139, -0.318266903676},
                      {0.0379392891011, -0.161756004716},
                      {0.970903513738, -1.98919319366},
                      {0.0310303554495}},
           t4_vectors{{0.447129259452, -0.0650129473886, -0.289941418759, -0.36825879668},
                      {0.0334506484725, -0.180983469197},
                      {0.952588219748, -1.98108179386},
                      {0.0187096067073}},
           t4_vectors{{0.446977427268, -0.0528186769132, -0.294745255921, -0.388949230631},
                      {0.0356176355394, -0.176812039276},
                      {0.949368394467, -1.97995096191},
                      {0.0191374793358}}});
}

TEST_CASE("sharpness_aware: a run that stops between two second passes goes on to the bit") {
  const options looks{.radius = 0.1, .period = 3};
  const std::vector<double> rates(8, 0.1);
  for (const int ranks : {1, 3}) {
    const auto whole = trained(ranks, looks, rates);
    for (const std::size_t stop : {1u, 3u, 4u, 5u})
      CHECK(trained(ranks, looks, rates, stop) == whole);
  }
}

TEST_CASE("sharpness_aware: the gradient of a network is that of the weights uphill") {
  using net = resnet<8, fp64, cpu, resnet_options{.image = {3, 8, 8}, .classes = 4}, reference>;
  network_fixture<net> plain(6);
  network_fixture<sharpness_aware<net>> uphill(6);
  plain.labels = uphill.labels = {0, 1, 2, 3, 0, 1};
  uphill.net.sharpness.radius = 0.3;
  plain.mean_loss();
  const auto statistics = [](auto& of) {
    const auto tail = of.net.segments().subspan(net::tensors());
    return std::vector<double>(of.weights().data + tail.front().offset,
                               of.weights().data + tail.back().end());
  };
  const metrics at_weights = uphill.forward();
  uphill.backward(write_mode::add);
  CHECK(statistics(uphill) == statistics(plain));  // of one pass, at the weights
  CHECK(uphill.net.read_metrics(uphill.s).loss == at_weights.loss);
  CHECK(uphill.ready_order.size() == net::tensors());
  const batch<cpu> some = uphill.samples(0, 3, 3);  // evaluation has metrics of its own
  CHECK(uphill.forward(some, phase::evaluate).count == 3);

  plain.backward();
  double squares = 0;
  for (const segment& s : net::segments().first(net::tensors()))
    for (std::size_t i = s.offset; i < s.end(); ++i)
      squares += plain.gradients()[i] * plain.gradients()[i];
  for (const segment& s : net::segments().first(net::tensors()))
    for (std::size_t i = s.offset; i < s.end(); ++i)
      plain.weights()[i] += 0.3 / std::sqrt(squares) * plain.gradients()[i];
  CHECK(plain.forward().loss > at_weights.loss);
  plain.backward();
  double error = 0, size = 0;
  for (const segment& s : net::segments().first(net::tensors()))
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      error = std::max(error, std::abs(plain.gradients()[i] - uphill.gradients()[i]));
      size = std::max(size, std::abs(plain.gradients()[i]));
    }
  CHECK(error < 1e-12 * size);
  CHECK(size > 1e-3);
}

TEST_CASE("sharpness_aware: between second passes, LookSAM's |g| is that of all micro-batches") {
  using net = resnet<8, fp64, cpu, resnet_options{.image = {3, 8, 8}, .classes = 4}, reference>;
  network_fixture<net> plain(6);
  network_fixture<sharpness_aware<net>> looks(6);
  plain.labels = looks.labels = {0, 1, 2, 3, 0, 1};
  looks.net.sharpness = detail::nn::sharpness_options{.radius = 0.3, .period = 2, .reuse = 0.5};
  std::array<step_info, 1> info{};
  const auto pass = [&](auto& of, std::size_t first, std::size_t count, write_mode mode) {
    batch<cpu> some = of.samples(first, count, 6);
    some.info = {info.data(), info.size()};
    of.forward(some);
    of.backward(mode);
  };
  const auto norm = [](const auto& x) {
    double squares = 0;
    for (const segment& s : net::segments().first(net::tensors()))
      for (std::size_t i = s.offset; i < s.end(); ++i) squares += x[i] * x[i];
    return std::sqrt(squares);
  };
  pass(looks, 0, 6, write_mode::overwrite);
  const std::vector<double> v = looks.net.state(looks.packed);
  info[0].step = 1;
  double of_each = 0;
  for (const std::size_t k : {0u, 1u, 2u}) {
    pass(looks, 2 * k, 2, k == 0 ? write_mode::overwrite : write_mode::add);
    pass(plain, 2 * k, 2, write_mode::overwrite);
    of_each += norm(plain.gradients());
  }
  for (const std::size_t k : {0u, 1u, 2u})
    pass(plain, 2 * k, 2, k == 0 ? write_mode::overwrite : write_mode::add);
  const double of_sum = norm(plain.gradients());
  CHECK(of_each > 1.2 * of_sum);  // else this test says nothing
  const double share = 0.5 * of_sum / norm(v);
  double error = 0;
  for (const segment& s : net::segments().first(net::tensors()))
    for (std::size_t i = s.offset; i < s.end(); ++i)
      error = std::max(error, std::abs(plain.gradients()[i] + share * v[i] - looks.gradients()[i]));
  CHECK(error < 1e-12 * of_sum);
}

TEST_CASE("sharpness_aware: where the gradient is 0, so is the way uphill") {
  // At its center T4 has no gradient: nothing moves, and nothing is NaN.
  quadratic<fp64> model;
  uphill_quadratic uphill({.radius = 0.1, .period = 2}, model);
  trainer run{uphill, sgd{}, learning_rates({0.1, 0.1, 0.1}), solo{}};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i)
      run.weights()[t4_table[k].offset + i] = t4_center[k][i];
  detail::nn::pack_anew(uphill, run.weights(), run.packed_parameters(), run.compute());
  for (int k = 0; k < 3; ++k) {
    CHECK(run.step(std::array{one_each(1)}, k).applied);
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t i = 0; i < t4_table[j].size; ++i)
        CHECK(run.weights()[t4_table[j].offset + i] == t4_center[j][i]);
  }
}

TEST_CASE("sharpness_aware describes itself and refuses nonsense") {
  CHECK(uphill_quadratic{}.describe_sharpness() == "gradients uphill by 0.05");
  CHECK(
      uphill_quadratic({.radius = 0.5, .adaptive = true, .period = 5}).describe_sharpness() ==
      "gradients uphill by 0.5 in units of the weights, eta 0.01, every 5 steps, between with 0.7 "
      "of the direction kept");
  const auto refusal = [](const options& o) { return error_message([&] { o.check(); }); };
  CHECK(refusal({.radius = 0}) != "");
  CHECK(refusal({.eta = -1}) != "");
  CHECK(refusal({.reuse = -1}) != "");
  CHECK(contains(refusal({.period = 0}), "the period must be at least 1 step"));
  CHECK(contains(error_message([] {
                   uphill_quadratic model({.period = 0});
                   trainer run{model, sgd{}, learning_rates({0.1}), solo{}};
                 }),
                 "sharpness_aware: the period"));
}
