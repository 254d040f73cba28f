// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of the user's own is resumed to the bit, from any source of batches, by name and shape.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/batch_range.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/custom_quadratic.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr cordee::detail::data::batch_range_options five_updates{.global_batch = 2, .updates = 5};
constexpr auto one_sample = [](double) { return 1; };

/// Batch n of this rank; a range of them differs from one epoch to the next only in its n.
double batch_of(int rank, std::int64_t n) { return 0.5 * rank + 0.125 * double(n % 5); }

/// The weights at epoch 3; the run stops at `until`, where it is not 3, and a new one continues.
template <class Feed>
std::vector<double> weights_at_3(threads comm, double until, const std::string& runs,
                                 const Feed& make_feed) {
  if (until < 3) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    auto feed = make_feed();
    run.fit(feed, until, checkpoint{.folder = runs});
  }
  auto model = quadratic_model_of<fp64>(calls::none);
  trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
  auto feed = make_feed();
  if (until < 3) REQUIRE(run.resume(runs));
  const auto done = run.fit(feed, 3);
  CHECK(done.steps == (until < 3 ? 8 : 15));
  return copy(run.weights());
}

/// The same of a matrix whose gradients travel in rank 2.
std::vector<double> compressed_at_3(threads comm, double until, const std::string& runs) {
  const auto run_to = [&](double from, double end) {
    custom_model<shift, fp64> model{
        parameter_list{}.add("matrix", {12, 12}), [](shift own, model_pass<double, cpu>& pass) {
          const auto w = pass.weights(0), g = pass.gradient(0);
          for (std::size_t i = 0; i < w.size; ++i)
            g[i] += pass.loss_weight() * (w[i] - std::sin(double(i * i)) * (1 + own));
          return metrics{.loss = 1, .count = pass.update().count};
        }};
    trainer run{model, sgd{}, fixed_rate{}, power_sgd{ring{comm}, {.rank = 2}}};
    batch_range feed{[&](std::int64_t n) { return batch_of(comm.rank(), n); }, comm, five_updates,
                     one_sample};
    if (from > 0) REQUIRE(run.resume(runs));
    if (end < 3)
      run.fit(feed, end, checkpoint{.folder = runs});
    else
      run.fit(feed, end);
    return copy(run.weights());
  };
  if (until < 3) run_to(0, until);
  return run_to(until < 3 ? until : 0, 3);
}

std::string resume_error(const std::string& runs, const parameter_list& list) {
  return error_message([&] {
    threads::launch(2, [&](threads comm) {
      custom_model<shift, fp64> model{list, quadratic_pass<fp64>{}};
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
      run.resume(runs);
    });
  });
}

}  // namespace

TEST_CASE("own model: low-rank gradients are resumed with their residual and directions") {
  const folder files;
  const auto weights = [&](double until) {
    return on_ranks(2,
                    [&](threads comm) { return compressed_at_3(comm, until, files.file("runs")); });
  };
  const auto whole = weights(3), resumed = weights(1.4);
  for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(resumed[r], whole[r]));
}
TEST_CASE("own model: a resumed run has the bits of one that did not stop, from any source") {
  const folder files;
  for (int form = 0; form < 3; ++form) {
    CAPTURE(form);
    const std::string runs = files.file(concat("runs", form));
    const auto weights = [&](double until) {
      return on_ranks(2, [&](threads comm) {
        const int rank = comm.rank();
        const auto by_number = [rank](std::int64_t n) { return batch_of(rank, n); };
        if (form == 0)
          return weights_at_3(comm, until, runs, [&] {
            std::vector<double> all;
            for (int n = 0; n < 5; ++n) all.push_back(batch_of(rank, n));
            return batch_range{std::move(all), comm, five_updates, one_sample};
          });
        if (form == 1)
          return weights_at_3(comm, until, runs, [&] {
            return batch_range{by_number, comm, five_updates, one_sample};
          });
        return weights_at_3(comm, until, runs, [&] {
          return batch_range{[=, n = 0]() mutable { return std::optional(by_number(n++)); }, comm,
                             five_updates, one_sample};
        });
      });
    };
    const auto whole = weights(3), resumed = weights(1.4);
    for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(resumed[r], whole[r]));
  }
}

TEST_CASE("own model: a loop of the user's own saves, and is resumed to the bit") {
  const folder files;
  const std::string runs = files.file("runs");
  const auto weights = [&](std::int64_t stops_at) {
    return on_ranks(2, [&](threads comm) {
      auto model = quadratic_model_of<fp64>();
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
      const bool saves = stops_at < 7;
      checkpoint saved{.folder = runs, .every = {.steps = 2}};
      const auto epoch_of = [](std::int64_t k) { return double(k) / 5; };
      if (stops_at == 0) {
        CHECK(run.resume(runs));
        CHECK(run.steps_taken() == 4);
      } else if (saves) {
        saved.check_on_all_ranks(run, 0);
        saved.begin_on_all_ranks(run, 0);
      }
      for (std::int64_t k = run.steps_taken(); k < (stops_at > 0 ? stops_at : 7); ++k) {
        run.step(batch_of(comm.rank(), k), 1 + comm.rank(), epoch_of(k));
        if (stops_at > 0 && saves && saved.step_on_all_ranks(run, epoch_of(k + 1))) break;
      }
      if (stops_at > 0 && saves) saved.end_on_all_ranks(run);
      return copy(run.weights());
    });
  };
  const auto whole = weights(7);
  (void)weights(4);
  const auto resumed = weights(0);
  for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(resumed[r], whole[r]));
}

TEST_CASE("own model: checkpoints of other names and shapes are refused, and the tensor is named") {
  const folder files;
  const std::string runs = files.file("runs");
  on_ranks(2, [&](threads comm) {
    return weights_at_3(comm, 1.4, runs, [&] {
      return batch_range{[](std::int64_t n) { return batch_of(0, n); }, comm, five_updates,
                         one_sample};
    });
  });
  CHECK(resume_error(runs, t4_list()).empty());
  const auto list_with = [](const char* name, std::initializer_list<std::int64_t> shape) {
    parameter_list list;
    list.add(name, shape)
        .add("b1", {2}, kind::bias)
        .add("W2", {2})
        .add("b2", {1}, kind::bias)
        .add("seen", {1}, kind::statistic);
    return list;
  };
  const auto refuses = [&](const parameter_list& list, const char* part) {
    const std::string message = resume_error(runs, list);
    CAPTURE(message);
    CHECK(contains(message, part));
  };
  refuses(list_with("W0", {4}), "has no tensor \"W0\"");
  refuses(list_with("W1", {5}), "\"W1\" is F64 [4], this network's is F64 [5]");
  refuses(list_with("W1", {2, 2}), "\"W1\" is F64 [4], this network's is F64 [2, 2]");
}
