// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Against the loader's own arithmetic: the sample at which a resumed loader begins is the next one.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/loader_options.hpp>
#include <cordee/train/step/loader_position.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::train;
using namespace support;
using cordee::detail::data::batch_plan;

namespace {

fit_position state_of(const batch_plan& plan, std::int64_t update) {
  return {.update = update,
          .samples = plan.samples,
          .global_batch = plan.global_batch,
          .seed = 5,
          .epochs_per_update = plan.epoch(1)};
}

constexpr last_batch ends[]{last_batch::drop, last_batch::pad, last_batch::carry};

}  // namespace

TEST_CASE("loader_position: what an epoch ends with is known from the epochs of an update") {
  const char* const names[]{"last_batch::drop", "last_batch::pad", "last_batch::carry"};
  for (const std::int64_t samples : {1, 7, 22, 50'000, 1'281'167})
    for (const std::int64_t batch : {1, 3, 7, 8, 256, 1000, 32'768})
      for (std::size_t k = 0; k < 3; ++k) {
        const batch_plan plan{samples, batch, ends[k]};
        if (plan.last_batch == last_batch::drop && batch > samples) continue;  // refused
        const std::string_view name = last_batch_of(state_of(plan, 0));
        CHECK_MESSAGE(name == (samples % batch == 0 ? "any" : names[k]), samples << " " << batch);
      }
  CHECK(last_batch_of(fit_position{.samples = 22, .global_batch = 6, .epochs_per_update = 0.1})
            .empty());
  CHECK(last_batch_of(fit_position{.samples = 24, .global_batch = 6, .epochs_per_update = 0.1})
            .empty());
}

TEST_CASE("loader_position: the next sample is the same under another global batch, or refused") {
  int continued = 0, refused = 0;
  for (const std::int64_t samples : {22, 24})
    for (const std::int64_t before : {2, 3, 4, 6, 8})
      for (const std::int64_t now : {2, 3, 4, 6, 8, 12})
        for (const last_batch end : ends)
          for (std::int64_t update = 0; update < 30; ++update) {
            const batch_plan saved{samples, before, end}, own{samples, now, end};
            std::string change;
            std::int64_t at = -1;
            const std::string message = error_message(
                [&] { at = resumed_update(state_of(saved, update), state_of(own, 0), change); });
            const auto next = saved.sample(update, 0);
            // Some update of the new loader begins at that sample, if it is not refused.
            bool exists = false;
            for (std::int64_t k = 0; k < 200 && !exists; ++k)
              exists = own.sample(k, 0).epoch == next.epoch && own.sample(k, 0).index == next.index;
            CHECK(message.empty() == (at >= 0));
            CHECK(change.empty() == (at < 0 || before == now));
            if (at >= 0) {
              const auto begins = own.sample(at, 0);
              CHECK((begins.epoch == next.epoch && begins.index == next.index));
              ++continued;
            } else {
              CHECK(contains(message, "no update of"));
              CHECK_FALSE(exists);
              ++refused;
            }
          }
  CHECK((continued > 1000 && refused > 1000));
}

TEST_CASE("loader_position: other samples are refused, with both values") {
  const fit_position saved = state_of({22, 6, last_batch::carry}, 7);
  std::string change;
  const auto message = [&](const fit_position& own) {
    return error_message([&] { (void)resumed_update(saved, own, change); });
  };
  fit_position other = saved;
  other.seed = 6;
  CHECK(contains(message(other), "had a loader with seed 5, this loader has 6"));
  CHECK(contains(message(state_of({23, 6, last_batch::carry}, 0)),
                 "had 22 samples, this loader has 23"));
  CHECK(contains(message(state_of({22, 6, last_batch::drop}, 0)),
                 "had a loader with last_batch::carry, this loader has last_batch::drop"));
  CHECK(contains(message(state_of({22, 4, last_batch::pad}, 0)),
                 "had a loader with last_batch::carry, this loader has last_batch::pad"));
  CHECK(contains(message(state_of({22, 8, last_batch::carry}, 0)),
                 "is behind 7 updates of a global batch of 6, and no update of 8 begins there: "
                 "continue with .global_batch = 6"));
  other = state_of({22, 3, last_batch::carry}, 0);
  CHECK(resumed_update(saved, other, change) == 14);
  CHECK(change ==
        "fit: global batch 6 -> 3: the run goes on behind 7 updates of before, at update 14 of "
        "now, without a sample left out or repeated\n");
}
