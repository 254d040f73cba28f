// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/timed_model.hpp"

using namespace cordee;
using namespace support;

namespace {

enum class fault { none, error, no_exception, skip };

/// A ring of which one rank fails at the third bucket, or skips it and those behind.
struct faulty_ring : ring<simulated> {
  fault what = fault::none;

  template <class Real, class D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    if (what == fault::skip && m.layout->index >= 2) return;
    if (what == fault::error && m.layout->index == 2) throw error("this bucket is lost");
    if (what == fault::no_exception && m.layout->index == 2) throw 1;
    ring<simulated>::mix(m, info, s);
  }
};

/// What the trainers of four ranks throw where rank 1 fails, in backward or in its courier.
struct failed_run {
  std::string launch;
  std::array<std::string, 4> steps;  // or of their construction
};
failed_run run_with(fault what, int layer_that_throws, const simulated::options& network) {
  failed_run texts;
  const step_profile profile = timed_profile();
  texts.launch = error_message([&] {
    simulated::launch(
        4,
        [&](simulated comm) {
          const bool fails = comm.rank() == 1;
          timed_model model{comm, &profile, 1, fails ? layer_that_throws : -1};
          std::string& text = texts.steps[static_cast<std::size_t>(comm.rank())];
          try {
            trainer run{model, sgd{}, constant{.learning_rate = 0.1},
                        faulty_ring{{comm}, fails ? what : fault::none}, bucket_per_layer()};
            take_one_step(run);
          } catch (const std::exception& e) {
            text = e.what();
          } catch (int) {
            text = "an int";
          }
          if (!text.empty()) throw error(text);
        },
        network);
  });
  return texts;
}

constexpr link_parameters wire{.latency = 0.25, .bandwidth = 4096};
const std::array<simulated::options, 2> networks{
    simulated::options{.network = {.link = wire}},
    simulated::options{.contended = fat_tree{wire, wire, wire, 2, 2}}};

}  // namespace

TEST_CASE("simulated trainer: a rank that throws ends every rank's step with its message") {
  for (const simulated::options& network : networks)
    for (const int layer : {0, 2, 4}) {
      CAPTURE(layer);
      const failed_run run = run_with(fault::none, layer, network);
      CHECK(run.launch == "rank 1: this layer has no gradient");
      CHECK(run.steps[1] == "this layer has no gradient");
      for (const std::size_t rank : {0u, 2u, 3u})
        CHECK(contains(run.steps[rank], "aborted: rank 1: this layer has no gradient"));
    }
}

TEST_CASE("simulated trainer: what a courier throws reaches the step of its rank") {
  for (const simulated::options& network : networks) {
    const failed_run run = run_with(fault::error, -1, network);
    CHECK(run.launch == "rank 1: this bucket is lost");
    CHECK(run.steps[1] == "this bucket is lost");
    const failed_run other = run_with(fault::no_exception, -1, network);
    CHECK(contains(other.launch, "threw something that is not a std::exception"));
    CHECK(other.steps[1] == "an int");
    for (const std::size_t rank : {0u, 2u, 3u}) {
      CHECK(contains(run.steps[rank], "aborted: rank 1: this bucket is lost"));
      CHECK(contains(other.steps[rank], "not a std::exception"));
    }
  }
}

TEST_CASE("simulated trainer: a courier that waits in vain is named, with its bucket") {
  for (const simulated::options& network : networks) {
    const failed_run run = run_with(fault::skip, -1, network);
    CHECK(contains(run.launch, "waits in turn for rank 1, but rank 1 has left the run"));
    CHECK(contains(run.launch, "step 0, round 0, bucket 2 (third to third, 19200 bytes)"));
    for (const std::size_t rank : {0u, 2u, 3u}) CHECK(contains(run.steps[rank], "aborted"));
  }
}

TEST_CASE(
    "simulated trainer: couriers and their trainers are unwound with a run that is given up") {
  for (const int last : {1, 7, 40, 100}) {
    simulated::options o = networks[1];
    int messages = 0;
    o.on_transfer = [&](const auto&) {
      if (++messages == last) throw error("the observer has seen enough");
    };
    CHECK(run_with(fault::none, -1, o).launch == "the observer has seen enough");
  }
}
