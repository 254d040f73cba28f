// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which samples fit and evaluate pass to the model, and how their metrics add up, on a model whose
// metrics are whole numbers that its samples determine: every sum below is exact.
#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.05};

/// Sample i has pixel i + 1 and label 3 i + 2.
struct numbered_data {
  std::size_t count;

  [[nodiscard]] extent image() const { return {1, 1, 1}; }
  [[nodiscard]] int classes() const { return 1; }
  [[nodiscard]] std::size_t size() const { return count; }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    pixels[0] = static_cast<std::uint8_t>(i + 1);
    return static_cast<int>(3 * i + 2);
  }
};

/// Metrics of some samples: loss, the sum of pixel * label; top1, of labels; top5, of pixels.
struct summing_model : quadratic<fp64> {
  metrics last{};
  std::vector<std::int32_t> trained{}, evaluated_counts{};
  normalization evaluated_norm{};

  void forward(const packed_parameters& w, span_on<double, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    quadratic<fp64>::forward(w, plane, b, p, s);
    last = {0, 0, 0, b.count};
    REQUIRE(b.pixels.size == static_cast<std::size_t>(b.count));
    REQUIRE(b.labels.size == static_cast<std::size_t>(b.count));
    for (std::size_t i = 0; i < b.labels.size; ++i) {
      last.loss += static_cast<double>(b.pixels[i]) * b.labels[i];
      last.top1 += b.labels[i];
      last.top5 += b.pixels[i];
      if (p == phase::train) trained.push_back(b.labels[i]);
    }
    if (p == phase::evaluate) {
      evaluated_counts.push_back(static_cast<std::int32_t>(b.count));
      evaluated_norm = b.normalization;
    }
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return last; }
};

bool same(const metrics& a, const metrics& b) {
  return a.loss == b.loss && a.top1 == b.top1 && a.top5 == b.top5 && a.count == b.count;
}
metrics sums_of(const numbered_data& data) {
  metrics all;
  for (std::size_t i = 0; i < data.count; ++i) {
    std::uint8_t pixel = 0;
    const int label = data.read(i, {&pixel, 1});
    all += metrics{static_cast<double>(pixel) * label, label, pixel, 1};
  }
  return all;
}
metrics sums_of(std::span<const step_record> steps) {
  metrics all;
  for (const step_record& r : steps) all += r.train;
  return all;
}

struct recorder {
  std::vector<step_record>* steps;
  std::vector<epoch_record>* epochs;

  void step(const step_record& r) { steps->push_back(r); }
  void epoch(const epoch_record& r) { epochs->push_back(r); }
};

}  // namespace

TEST_CASE("evaluate: every sample once, its own pixels with its label, on any ranks and batches") {
  for (const std::size_t count : {1u, 21u, 40u})
    for (const int ranks : rank_counts)
      for (const int batch_size : {1, 4, 100}) {
        CAPTURE(count);
        CAPTURE(ranks);
        CAPTURE(batch_size);
        const numbered_data data{count};
        for (const metrics& found : on_ranks(ranks, [&](threads comm) {
               summing_model model;
               trainer run{model, sgd{}, steady, ring{comm}};
               const metrics result = run.evaluate(data, {}, batch_size);
               for (const std::int32_t n : model.evaluated_counts)
                 CHECK((n > 0 && n <= batch_size));
               return result;
             }))
          CHECK(same(found, sums_of(data)));
      }
}

TEST_CASE("fit: an epoch trains each sample once; records of steps add up to those of epochs") {
  for (const int ranks : rank_counts)
    for (const int accumulate : {1, 2})
      for (const last_batch at_end : {last_batch::drop, last_batch::carry}) {
        CAPTURE(ranks);
        CAPTURE(accumulate);
        const bool drops = at_end == last_batch::drop;
        const numbered_data data{42};  // of which `drop` leaves out 2 in each epoch
        std::vector<step_record> steps;
        std::vector<epoch_record> epochs;
        const auto trained = on_ranks(ranks, [&](threads comm) {
          summing_model model;
          trainer run{model, sgd{}, steady, ring{comm}};
          loader feed{data,
                      comm,
                      {.global_batch = 8, .accumulate = accumulate, .last_batch = at_end},
                      pad_crop_flip{},
                      normalize{.mean = {0.25}, .deviation = {0.5}}};
          const run_summary summary =
              run.fit(feed, 2, validation{data, 5}, recorder{&steps, &epochs});
          CHECK(summary.steps == feed.step());
          CHECK(summary.last.last.info.step == feed.step() - 1);
          CHECK(summary.last.train.count > 0);
          REQUIRE(summary.last.validation);
          CHECK(same(*summary.last.validation, sums_of(data)));
          CHECK(model.evaluated_norm.mean[0] == 0.25f);
          CHECK(model.evaluated_norm.scale[0] == 2);
          CHECK(feed.step() == (drops ? 10 : 11));  // nothing was fetched beyond the last step
          return model.trained;
        });
        std::vector<int> times(data.count);
        for (const auto& labels : trained)
          for (const std::int32_t label : labels) ++times[static_cast<std::size_t>(label / 3)];
        // ceil(2 * 42 / 8) updates are 88 samples: carry begins a third epoch with four of them.
        std::int64_t all = 0;
        for (const int n : times) {
          all += n;
          CHECK((drops ? n <= 2 : n >= 2 && n <= 3));
        }
        CHECK(all == (drops ? 80 : 88));

        REQUIRE(steps.size() == (drops ? 10 : 11));
        REQUIRE(epochs.size() == 2);
        for (const step_record& r : steps) CHECK(r.train.count == 8);
        // With `carry` update 5 begins within the first epoch, at sample 40.
        const std::size_t first = drops ? 5 : 6;
        CHECK(same(epochs[0].train, sums_of(std::span(steps).first(first))));
        CHECK(same(epochs[1].train, sums_of(std::span(steps).subspan(first))));
        CHECK(epochs[0].last.info.step == static_cast<std::int64_t>(first) - 1);
        for (const epoch_record& e : epochs) CHECK(same(*e.validation, sums_of(data)));
      }
}

TEST_CASE("fit: continues with the next sample in the middle of an epoch, and sums from there on") {
  const numbered_data data{40};
  const auto trained_by = [&](std::span<const double> ends, std::vector<epoch_record>& epochs) {
    std::vector<step_record> steps;
    return on_ranks(1, [&](threads comm) {
      summing_model model;
      trainer run{model, sgd{}, steady, ring{comm}};
      loader feed{data, comm, {.global_batch = 8}};
      for (const double end : ends) run.fit(feed, end, recorder{&steps, &epochs});
      return model.trained;
    })[0];
  };
  std::vector<epoch_record> whole, parts;
  const double at_once[]{2}, in_parts[]{0.4, 1, 1.6, 2};
  CHECK(trained_by(at_once, whole) == trained_by(in_parts, parts));
  REQUIRE(whole.size() == 2);
  REQUIRE(parts.size() == 4);
  for (std::size_t k = 0; k < 2; ++k) {
    metrics sum = parts[2 * k].train;
    sum += parts[2 * k + 1].train;
    CHECK(same(whole[k].train, sum));
  }
}

TEST_CASE("fit: the metrics of a skipped step are in its record, and the step is counted once") {
  std::vector<step_record> steps;
  std::vector<epoch_record> epochs;
  on_ranks(2, [&](threads comm) {
    summing_model model;
    if (comm.rank() == 1) model.poisons = {{1, 0}, {2, 0}};
    trainer run{model, sgd{}, steady, ring{comm}};
    loader feed{numbered_data{40}, comm, {.global_batch = 8}};
    const run_summary summary = run.fit(feed, 1, recorder{&steps, &epochs});
    CHECK(summary.skipped == 2);
    CHECK(summary.steps == 5);
    return 0;
  });
  REQUIRE(steps.size() == 5);
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(steps[k].skipped == (k < 1 ? 0 : k < 2 ? 1 : 2));
    CHECK(steps[k].train.count == 8);
  }
  CHECK(same(epochs[0].train, sums_of(numbered_data{40})));
}
