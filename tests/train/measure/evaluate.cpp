// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace support;

namespace {
constexpr constant steady{0.05};

/// A loss that depends on every pixel, and on their order in a batch.
struct order_model : quadratic<fp64> {
  void forward(const packed_parameters& w, span_on<double, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    quadratic::forward(w, plane, b, p, s);
    for (const std::uint8_t pixel : b.pixels) loss = loss / 3 + pixel;
  }
};

/// Decoded images, as far as evaluation can tell: samples that are drawn at random, of which each
/// read takes another time. It counts them, and readers that read at the same time.
struct decoded {
  struct shared {
    std::vector<std::atomic<int>> reads = std::vector<std::atomic<int>>(101);
    std::atomic<int> inside{0}, most{0};
  };
  std::shared_ptr<shared> state = std::make_shared<shared>();
  int together = 1;  // each of the first readers waits for so many, for 30 seconds at most

  extent image() const { return {1, 1, 1}; }
  int classes() const { return 1; }
  std::size_t size() const { return state->reads.size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    const int now = ++state->inside;
    for (int most = state->most; most < now && !state->most.compare_exchange_weak(most, now);) {
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (state->most < together && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    for (std::size_t k = 0; k < i % 4; ++k) std::this_thread::yield();
    ++state->reads[i];
    pixels[0] = static_cast<std::uint8_t>(7 * i);
    --state->inside;
    return 0;
  }
  int read(std::size_t i, std::span<std::uint8_t> pixels, random_sequence) const {
    return read(i, pixels);
  }
};
static_assert(detail::data::DrawnAtRandom<decoded>);

}  // namespace

TEST_CASE("evaluate: every sample counts once, for any number of ranks and batch size") {
  for (const int ranks : rank_counts)
    for (const int batch_size : {1, 4, 100})
      for (const metrics& s : on_ranks(ranks, [&](threads comm) {
             quadratic<fp64> model;
             trainer run{model, sgd{}, steady, ring{comm}};
             return run.evaluate(toy_data{}, {}, batch_size);
           })) {
        CHECK(s.count == 21);
        CHECK(relatively_close(
            s.mean_loss(),
            [] {
              double loss = 0;
              for (std::size_t k = 0; k < 4; ++k)
                for (std::size_t i = 0; i < t4_table[k].size; ++i)
                  loss += t4_curvature[k][i] * std::pow(t4_start[k][i] - t4_center[k][i], 2) / 2;
              return loss;
            }(),
            1e-13));
      }
}

TEST_CASE(
    "evaluate: the bits of the metrics do not depend on threads, and no sample on two of them") {
  for (const int ranks : {1, 2, 3})
    for (const int batch_size : {8, 200}) {
      std::vector<double> expected;
      for (const int threads : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        CAPTURE(threads);
        const decoded data;
        const auto all = on_ranks(ranks, [&](cordee::threads comm) {
          order_model model;
          trainer run{model, sgd{}, steady, ring{comm}};
          return run.evaluate(data, {}, batch_size, threads);
        });
        for (const metrics& m : all) {
          CHECK(m.count == 101);
          CHECK(same_bits(m.loss, all[0].loss));
        }
        expected.push_back(all[0].loss);
        CHECK(same_bits(expected.back(), expected.front()));
        for (const auto& reads : data.state->reads) CHECK(reads == 1);
      }
    }
}

TEST_CASE(
    "evaluate: decoded images are read by the cores of the rank, or as many threads as asked") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  const cpu::worker_limit cores(3);
  for (const int threads : {0, 2}) {
    const decoded data{.together = threads == 0 ? 3 : threads};
    CHECK(run.evaluate(data, {}, 50, threads).count == 101);
    CHECK(data.state->most == data.together);
  }
  const decoded data{.together = 2};
  toy_loader feed;
  run.fit(feed, 0.1, validation{data, 50, 2});
  CHECK(data.state->most == 2);
  CHECK_THROWS_AS(run.evaluate(toy_data{}, {}, 1, -1), usage_error);
}

TEST_CASE("evaluate: an empty data set has empty metrics") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  CHECK(run.evaluate(toy_data{.count = 0}, {}).count == 0);
  CHECK_THROWS_AS(run.evaluate(toy_data{}, {}, 0), usage_error);
}

TEST_CASE("validation: batches of a micro-batch by default, at most 250, or as many as asked") {
  struct batches_of : toy_loader {
    std::int64_t size = 1;
    [[nodiscard]] std::int64_t global_batch() const { return size; }
  };
  const auto last_batch = [](std::int64_t micro, auto evaluated) {
    quadratic<fp64> model;
    trainer run{model, sgd{}, steady, solo{}};
    batches_of feed{{}, micro};
    run.fit(feed, 0.1, evaluated);
    return model.samples;
  };
  CHECK(last_batch(5, validation{toy_data{.count = 20}}) == 5);
  CHECK(last_batch(400, validation{toy_data{.count = 500}}) == 250);
  CHECK(last_batch(5, validation{toy_data{.count = 20}, 7}) == 6);
}

TEST_CASE("fit: each epoch's record has the validation metrics of the mean model") {
  struct recorder {
    std::vector<epoch_record>* epochs;
    void epoch(const epoch_record& r) { epochs->push_back(r); }
  };
  std::vector<epoch_record> epochs;
  on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, local_steps{sgd{}, 100}, steady, ring{comm}};
    toy_loader feed{.rank_count = 3};
    run.fit(feed, 2, validation{toy_data{}, 5}, recorder{&epochs});
    CHECK(run.statistics()[0] == 20);  // evaluation restored it
    return 0;
  });
  REQUIRE(epochs.size() == 2);
  for (const epoch_record& e : epochs) {
    REQUIRE(e.validation);
    CHECK(e.validation->count == 21);
    CHECK(e.train.count == 30);
  }
}
