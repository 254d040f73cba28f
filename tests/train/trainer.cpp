// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/mixing.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto slow_start = [](double epoch) { return 0.02 * std::min(1.0, (epoch + 1) / 20); };

double spread(int rank, int ranks) { return 0.3 * (rank - 0.5 * (ranks - 1)); }

template <class Real>
std::vector<Real> copy(span_on<Real, cpu> plane) {
  return {plane.begin(), plane.end()};
}
template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

// 200 steps on T4 with rank-dependent data, weights by rank.
template <class P, class O>
auto weights_after(int ranks, const O& rule, trainer_options options = {}, int steps = 200,
                   int accumulate = 1) {
  return on_ranks(ranks, [&](threads link) {
    quadratic<P> model{.shift = spread(link.rank(), ranks)};
    trainer run{model, rule, slow_start, ring{link}, options};
    std::vector<batch<cpu>> micro(static_cast<std::size_t>(accumulate), one_each(ranks));
    for (batch<cpu>& b : micro) b.global *= accumulate;
    for (int k = 0; k < steps; ++k) run.step(micro, k);
    return copy(run.weights().subspan(0, 256));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("an exact reducer leaves every rank with the same bits", P, fp32, fp64) {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    const auto by_rank = weights_after<P>(ranks, lars{.trust = 0.02});
    for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
  }
}

TEST_CASE("the bucket limit, eager or late, and accumulation do not change the result") {
  const sgd rule{.momentum = 0.9, .weight_decay = 0.01};
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto whole = weights_after<fp64>(ranks, rule)[0];
    const auto late = weights_after<fp64>(ranks, rule, {.overlap = false})[0];
    const auto pieces = weights_after<fp64>(ranks, rule, {.bucket_bytes = 512})[0];
    const auto twice = weights_after<fp64>(ranks, rule, {}, 200, 2)[0];
    CHECK(same_bits(whole, late));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(close(pieces[i], whole[i], 1e-15));
      CHECK(close(twice[i], whole[i], 1e-14));
    }
  }
}

TEST_CASE("every rank begins with rank 0's weights") {
  const auto by_rank = on_ranks(3, [&](threads link) {
    struct own_start : quadratic<fp64> {
      int rank = 0;
      void initialise(span_on<double, cpu> plane, std::uint64_t) const { plane[0] = 7 + rank; }
    };
    own_start model;
    model.rank = link.rank();
    trainer run{model, sgd{}, slow_start, ring{link}};
    return run.weights()[0];
  });
  for (const double w : by_rank) CHECK(w == 7);
}

TEST_CASE("ranks with different bucket tables are refused at the start") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          quadratic<fp64> model;
          trainer run{model,
                      sgd{},
                      slow_start,
                      ring{link},
                      {.bucket_bytes = link.rank() == 0 ? 512u : 4096u}};
        },
        patient);
  });
  CHECK(contains(said, "different parameter tables or bucket limits"));
}

TEST_CASE("exact: a step that is not finite leaves every bit of weights, slots and counters") {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int ranks : {1, 2, 3, 5}) {
      CAPTURE(ranks);
      const auto by_rank = on_ranks(ranks, [&](threads link) {
        quadratic<fp64> model{.shift = spread(link.rank(), ranks)};
        if (link.rank() == ranks - 1) model.poisons = {{2, 1, value}};
        trainer run{model, lars{.trust = 0.02}, slow_start, ring{link}, {.bucket_bytes = 512}};
        bool held = true;
        for (int k = 0; k < 5; ++k) {
          const auto weights = copy(run.weights()), slot = copy(run.slot(0));
          const step_outcome out = run.step(std::array{one_each(ranks)}, k);
          held = held && out.applied == (k != 2) && out.now.step == k;
          if (k == 2)  // statistics included: the whole plane
            held = held && same_bits(weights, copy(run.weights())) &&
                   same_bits(slot, copy(run.slot(0)));
          else
            held = held && !same_bits(weights, copy(run.weights()));
          if (k == 3)
            held = held && out.now.applied == 2 && out.now.round == 3 &&
                   out.now.previous_rate == slow_start(1);
        }
        return held && run.statistics()[0] == 4;
      });
      for (const bool held : by_rank) CHECK(held);
    }
}

TEST_CASE(
    "exact: after as many bad steps in a row as patience allows, the error names the segment") {
  for (const int ranks : {1, 3}) {
    const std::string said = complaint([&] {
      threads::launch(
          ranks,
          [&](threads link) {
            quadratic<fp32> model;
            if (link.rank() == 0) model.poisons = {{0, 2}, {2, 2}, {3, 2}, {4, 2}};
            trainer run{model, sgd{}, slow_start, ring{link}, {.patience = 3}};
            for (int k = 0; k < 9; ++k) {
              run.step(std::array{one_each(ranks)}, k);
              CHECK(k < 4);
            }
          },
          patient);
    });
    CHECK(contains(said, "3 steps in a row"));
    CHECK(contains(said, "\"W2\""));
    CHECK(contains(said, "step 4"));
  }
}

TEST_CASE("unguarded: nothing is looked at and nothing is skipped") {
  quadratic<fp64> model;
  model.poisons = {{1, 0}};
  trainer run{model, sgd{}, slow_start, solo{}, {.guarded = false}};
  for (int k = 0; k < 3; ++k) CHECK(run.step(std::array{one_each(1)}, k).applied);
  CHECK(std::isnan(run.weights()[0]));
}

TEST_CASE("mixing: a bucket that is not finite counts as zero on that rank; the others go on") {
  constexpr int ranks = 3;
  const auto by_rank = on_ranks(ranks, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), ranks)};
    if (link.rank() == 1) model.poisons = {{0, 2}};
    trainer run{model, adapt_then_combine{}, rates({0.1}), cycle{link}, {.bucket_bytes = 512}};
    const step_outcome out = run.step(std::array{one_each(ranks)}, 0);
    CHECK(out.applied);
    CHECK(out.zeroed == (link.rank() == 1 ? 1 : 0));
    CHECK(run.statistics()[0] == (link.rank() == 1 ? 0 : 1));
    std::vector<std::vector<double>> w;
    for (std::size_t k = 0; k < 4; ++k) w.push_back(numbers(run.weights(), k));
    return w;
  });
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < by_rank[0][k].size(); ++i) {
      double mixed =
          0;  // over a cycle of three, all neighbours: the plain mean of the trial points
      for (int r = 0; r < ranks; ++r) {
        const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_centre[k][i] - spread(r, ranks));
        mixed += (t4_start[k][i] - (r == 1 && k == 2 ? 0 : 0.1 * g)) / ranks;
      }
      for (const auto& w : by_rank) CHECK(close(w[k][i], mixed, 1e-14));
    }
}

TEST_CASE("local: a rank skips its own step and still meets the others") {
  const auto by_rank = on_ranks(2, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), 2)};
    if (link.rank() == 1) model.poisons = {{1, 0}};
    trainer run{model, local{sgd{.momentum = 0}, 2}, rates({0.1, 0.1}), ring{link}};
    std::vector<double> first;
    for (int k = 0; k < 2; ++k) {
      const step_outcome out = run.step(std::array{one_each(2)}, k);
      CHECK(out.applied == !(k == 1 && link.rank() == 1));
      CHECK(run.statistics()[0] == (k == 1 && link.rank() == 1 ? 1 : k + 1));
      first.push_back(run.weights()[0]);
    }
    return first;
  });
  const auto stepped = [](double w, int r) { return w - 0.1 * (w - 0.4 - spread(r, 2)); };
  CHECK(close(by_rank[0][0], stepped(0.5, 0), 1e-15));
  CHECK(close(by_rank[1][0], stepped(0.5, 1), 1e-15));
  const double met = (stepped(stepped(0.5, 0), 0) + stepped(0.5, 1)) / 2;
  for (const auto& w : by_rank) CHECK(close(w[1], met, 1e-15));
}

TEST_CASE("local{lars} sees the norms of its own gradient before it proposes") {
  // One rank: meeting nobody, it must do what lars does.
  const auto alone = [](auto rule) {
    quadratic<fp64> model;
    trainer run{model, rule, slow_start, solo{}, {.bucket_bytes = 512}};
    for (int k = 0; k < 20; ++k) run.step(std::array{one_each(1)}, k);
    return copy(run.weights());
  };
  CHECK(same_bits(alone(local{lars{.trust = 0.02}, 4}), alone(lars{.trust = 0.02})));
}

TEST_CASE("the toy mixing rule reaches the golden path of DSGD, and local{sgd} that of DmSGD") {
  // algorithms 21: four ranks on a cycle, f = (x - b)^2 / 2, x = 0, rate 0.1. T4's last segment has
  // curvature 1, starts at 0.05 with centre 0.
  constexpr std::array b{0.0, 1.0, 2.0, 5.0};
  const auto path = [&](const auto& rule, int steps) {
    return on_ranks(4, [&](threads link) {
      quadratic<fp64> model{.shift = b[static_cast<std::size_t>(link.rank())] + 0.05};
      trainer run{model, rule, [](double) { return 0.1; }, cycle{link}};
      for (int k = 0; k < steps; ++k) run.step(std::array{one_each(4)}, k);
      return numbers(run.weights(), 3)[0] - 0.05;
    });
  };
  const auto reaches = [](const std::deque<double>& x, std::array<double, 4> golden, double tol) {
    for (std::size_t r = 0; r < 4; ++r) CHECK(close(x[r], golden[r], tol));
  };
  reaches(path(adapt_then_combine{}, 3), {.522, .423, .614666666667, .608333333333}, 1e-11);
  reaches(path(adapt_then_combine{}, 600),
          {1.97802197802, 1.87912087912, 2.07326007326, 2.0695970696}, 1e-10);
  const local dmsgd{sgd{.momentum = 0.9}, 1};
  reaches(path(dmsgd, 2), {.54, .36, .686666666667, .653333333333}, 1e-11);
  reaches(path(dmsgd, 3), {.992, .73, 1.21466666667, 1.17533333333}, 1e-11);
  reaches(path(dmsgd, 600), {2, 1, 8.0 / 3, 7.0 / 3}, 1e-10);
}

TEST_CASE("a rank without samples contributes zeros") {
  const auto by_rank = on_ranks(3, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), 2)};  // ranks 0 and 1 have the data
    trainer run{model, sgd{.momentum = 0}, rates({0.1}), ring{link}};
    batch<cpu> own{{}, {}, link.rank() == 2 ? 0 : 1, 2, 3};
    run.step(std::array{own}, 0);
    return run.weights()[0];
  });
  for (const double w : by_rank) CHECK(close(w, 0.5 - 0.1 * (0.5 - 0.4), 1e-15));
}

TEST_CASE("the agreed model is the mean of the ranks' models, and what was there comes back") {
  on_ranks(3, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), 3)};
    trainer run{model, local{sgd{.momentum = 0}, 8}, rates({0.1}), ring{link}};
    run.step(std::array{one_each(3)}, 0);
    const auto before = copy(run.weights());
    const double inside = run.with_mean_model([&] {
      CHECK(run.image().span()[0] == run.weights()[0]);  // published
      return run.weights()[0];
    });
    CHECK(close(inside, 0.5 - 0.1 * (0.5 - 0.4), 1e-15));
    CHECK(same_bits(before, copy(run.weights())));
    CHECK(run.image().span()[0] == before[0]);
    return 0;
  });
}

TEST_CASE("a throw in one rank ends the run with its message on every rank") {
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::string> said(static_cast<std::size_t>(ranks));
    const std::string first = complaint([&] {
      threads::launch(
          ranks,
          [&](threads link) {
            struct thrower : quadratic<fp64> {
              int rank = 0;
              void forward(const image& w, span_on<double, cpu> p, const batch<cpu>& b, phase ph,
                           cpu::stream s) {
                if (rank == 1 && step == 2) throw error("the sensor fell off");
                quadratic<fp64>::forward(w, p, b, ph, s);
              }
            };
            thrower model;
            model.rank = link.rank();
            trainer run{model, sgd{}, slow_start, ring{link}};
            try {
              for (int k = 0; k < 9; ++k) run.step(std::array{one_each(ranks)}, k);
            } catch (const std::exception& e) {
              said[static_cast<std::size_t>(link.rank())] = e.what();
              throw;
            }
          },
          patient);
    });
    CHECK(first == "rank 1: the sensor fell off");
    for (const std::string& s : said) CHECK(contains(s, "the sensor fell off"));
  }
}

TEST_CASE(
    "a rank that falls silent ends the run at the deadline, and is named on every other rank") {
  std::vector<std::string> said(3);
  const std::string first = complaint([&] {
    threads::launch(3,
                    [&](threads link) {
                      quadratic<fp64> model;
                      trainer run{model, sgd{}, slow_start, ring{link}};
                      try {
                        for (int k = 0; k < 9; ++k) {
                          if (link.rank() == 2 && k == 3)
                            std::this_thread::sleep_for(std::chrono::milliseconds(450));
                          run.step(std::array{one_each(3)}, k);
                        }
                      } catch (const std::exception& e) {
                        said[static_cast<std::size_t>(link.rank())] = e.what();
                        throw;
                      }
                    },
                    {.deadline = std::chrono::milliseconds(300)});
  });
  CHECK(contains(first, "for rank 2 to"));
  for (const std::string& s : said) CHECK(contains(s, "for rank 2 to"));
}

TEST_CASE("a rank that leaves early is named at once") {
  const std::string said = complaint([&] {
    threads::launch(
        3,
        [&](threads link) {
          quadratic<fp64> model;
          trainer run{model, sgd{}, slow_start, ring{link}};
          for (int k = 0; k < (link.rank() == 1 ? 2 : 5); ++k) run.step(std::array{one_each(3)}, k);
        },
        patient);
  });
  CHECK(contains(said, "rank 1 has left the run"));
}

namespace {

// A ring that counts the exchanges it has finished.
template <class Link>
struct counted : ring<Link> {
  std::atomic<int>* finished;

  template <class Real, class D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    ring<Link>::mix(m, now, s);
    ++*finished;
  }
};

// Backward stops before its last segment until a bucket has been exchanged, or for a while.
struct waiting : quadratic<fp32> {
  std::atomic<int>* finished = nullptr;
  int seen = 0;

  template <class Ready>
  void backward(const image& w, span_on<float, cpu> g, into i, Ready&& ready, cpu::stream s) {
    quadratic<fp32>::backward(
        w, g, i,
        [&](std::size_t k) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit);
          while (k == 0 && *finished == 0 && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
          if (k == 0) seen = *finished;
          ready(k);
        },
        s);
  }
  int limit = 0;  // milliseconds
};

template <class O>
int exchanged_during_backward(const O& rule, trainer_options options, int limit) {
  std::atomic<int> least{99};
  on_ranks(2, [&](threads link) {
    std::atomic<int> finished{0};
    waiting model;
    model.finished = &finished;
    model.limit = limit;
    trainer run{model, rule, slow_start, counted<threads>{{link}, &finished}, options};
    run.step(std::array{one_each(2)}, 0);
    if (model.seen < least) least = model.seen;
    CHECK(finished == 4);
    return 0;
  });
  return least;
}

}  // namespace

TEST_CASE("buckets are exchanged while backward goes on, unless the rule must see it whole") {
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256}, 20'000) >= 1);
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256, .overlap = false}, 50) == 0);
  CHECK(exchanged_during_backward(local{sgd{}, 1}, {.bucket_bytes = 256}, 50) == 0);
}
