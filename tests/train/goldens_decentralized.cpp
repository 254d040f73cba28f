// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// docs/mathematics.md, 5.1 to 5.3 and 5.6, through the whole trainer: four ranks on a ring,
// f = (x - b)^2 / 2 with b = 0, 1, 2, 5, from x = 0, with learning rate 0.1.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using four = std::array<double, 4>;

constexpr four targets{0, 1, 2, 5};

// x of every rank after so many steps. T4's last segment has curvature 1, starts at 0.05 and has
// its optimum at 0: shifted, it is this problem.
template <class P = fp64, class O, class G = topologies::ring>
four path(const O& optimizer, int steps, const G& topology = {}) {
  const auto by_rank = on_ranks(4, [&](threads comm) {
    quadratic<P> model{.shift = targets[static_cast<std::size_t>(comm.rank())] + 0.05};
    trainer run{model, optimizer, constant{0.1}, gossip{comm, topology}, {.bucket_bytes = 512}};
    for (int k = 0; k < steps; ++k) run.step(std::array{one_each(4)}, k);
    return numbers(run.weights(), 3)[0] - 0.05;
  });
  return {by_rank[0], by_rank[1], by_rank[2], by_rank[3]};
}

void reaches(const four& x, const four& golden, double tolerance = 1e-11) {
  for (std::size_t r = 0; r < 4; ++r) {
    CAPTURE(r);
    CAPTURE(x[r]);
    CHECK(close(x[r], golden[r], tolerance));
  }
}

double mean_square_error(const four& x) {
  double sum = 0;
  for (const double value : x) sum += (value - 2) * (value - 2) / 4;
  return sum;
}

constexpr int many_steps = 900;
constexpr four first_step{.2, .1, .266666666667, .233333333333};
constexpr four dsgd_limit{1.97802197802, 1.87912087912, 2.07326007326, 2.0695970696};

}  // namespace

TEST_CASE("decentlam over the complete graph, parallel momentum SGD, has no bias") {
  for (const double x : path(decentlam{}, many_steps, topologies::complete{}))
    CHECK(close(x, 2, 1e-12));
}

TEST_CASE("DSGD, decentlam without momentum, reaches its golden path and its small bias") {
  const decentlam dsgd{.momentum = 0};
  reaches(path(dsgd, 1), first_step);
  reaches(path(dsgd, 2), {.36, .27, .446666666667, .443333333333});
  reaches(path(dsgd, 3), {.522, .423, .614666666667, .608333333333});
  const four end = path(dsgd, many_steps);
  reaches(end, dsgd_limit, 1e-11);
  CHECK(close(mean_square_error(end), 0.00632639643629, 1e-13));
}

TEST_CASE("DmSGD, local_steps{sgd, 1}, reaches its golden path; momentum amplifies its bias") {
  const local_steps dmsgd{sgd{.momentum = 0.9}, 1};
  reaches(path(dmsgd, 1), first_step);
  reaches(path(dmsgd, 2), {.54, .36, .686666666667, .653333333333});
  reaches(path(dmsgd, 3), {.992, .73, 1.21466666667, 1.17533333333});
  const four end = path(dmsgd, many_steps);
  reaches(end, {2, 1, 8.0 / 3, 7.0 / 3}, 1e-12);
  CHECK(close(mean_square_error(end), 0.388888888889, 1e-12));
}

TEST_CASE("DecentLaM reaches its golden path, and DSGD's limit for any momentum") {
  reaches(path(decentlam{}, 1), first_step);
  reaches(path(decentlam{}, 2), {.54, .36, .686666666667, .653333333333});
  reaches(path(decentlam{}, 3), {.972, .81, 1.15466666667, 1.17533333333});
  const four end = path(decentlam{}, many_steps);
  reaches(end, dsgd_limit, 1e-11);
  CHECK(close(mean_square_error(end), 0.00632639643629, 1e-13));
  reaches(path(decentlam{.momentum = 0.7, .nesterov = true}, many_steps), dsgd_limit, 1e-11);
  reaches(path(decentlam{.momentum_correction = false}, many_steps), dsgd_limit, 1e-11);
  reaches(path<fp32>(decentlam{}, many_steps), dsgd_limit, 2e-6);
}

TEST_CASE("adapt_while_combine{sgd} reaches DmSGD's golden path of that order, and its limit") {
  const adapt_while_combine dmsgd{sgd{}};
  reaches(path(dmsgd, 1), {0, .1, .2, .5});
  reaches(path(dmsgd, 2), {.2, .28, .626666666667, 1.13333333333});
  reaches(path(dmsgd, 3), {.517777777778, .602888888889, 1.14133333333, 1.85});
  const four end = path(dmsgd, many_steps);
  reaches(end, {.971428571429, 1.22857142857, 2.17142857143, 3.62857142857});
  CHECK(close(mean_square_error(end), 1.08367346939, 1e-11));
}

TEST_CASE("combine then adapt is the iteration of local_steps, half a step earlier") {
  // y = W x,  m <- 0.9 m + (y - b),  x <- y - 0.1 m: the weights of local_steps are the y.
  four x{}, m{};
  const auto mixed = [](const four& of) {
    four y{};
    for (std::size_t r = 0; r < 4; ++r) y[r] = (of[r] + of[(r + 1) % 4] + of[(r + 3) % 4]) / 3;
    return y;
  };
  for (int steps = 1; steps <= 20; ++steps) {
    const four y = mixed(x);
    for (std::size_t r = 0; r < 4; ++r) {
      m[r] = 0.9 * m[r] + (y[r] - targets[r]);
      x[r] = y[r] - 0.1 * m[r];
    }
    reaches(path(local_steps{sgd{}, 1}, steps), mixed(x), 1e-13);
  }
}

TEST_CASE("qg_dmsgd reaches its golden paths; without Nesterov's form its limit is DSGD's") {
  reaches(path(qg_dmsgd{}, 1), first_step);
  reaches(path(qg_dmsgd{}, 2), {.376, .287, .464666666667, .464333333333});
  reaches(path(qg_dmsgd{}, 3), {.57042, .47043, .666146666667, .661883333333});
  const four end = path(qg_dmsgd{}, 3 * many_steps);
  reaches(end, dsgd_limit, 1e-11);
  CHECK(close(mean_square_error(end), 0.00632639643629, 1e-13));
  const qg_dmsgd nesterov{.nesterov = true};
  reaches(path(nesterov, 1), {.38, .19, .506666666667, .443333333333});
  reaches(path(nesterov, 2), {.68096, .50977, .845246666667, .838343333333});
  reaches(path(nesterov, 3), {.97989878, .79177807, 1.15501658667, 1.14201368333});
  reaches(path(nesterov, 3 * many_steps),
          {1.96311077554, 1.77661525186, 2.13662675727, 2.12364721533}, 1e-11);
}

TEST_CASE("decentlam_over{sgd} has the bits of decentlam") {
  for (const int steps : {1, 3, 40}) {
    const four plain = path(decentlam{.momentum = 0.8}, steps);
    CHECK(path(decentlam_over{sgd{.momentum = 0.8}}, steps) == plain);
    CHECK(path(decentlam_over{velocity_sgd{.momentum = 0.8}}, steps) == plain);
    CHECK(path(decentlam_over{lars{.momentum = 0.8, .adapt_on = {}}}, steps) == plain);
    CHECK(path(decentlam_over{sgd{.momentum = 0.8, .nesterov = true}}, steps) ==
          path(decentlam{.momentum = 0.8, .nesterov = true}, steps));
  }
}
