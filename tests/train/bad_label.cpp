// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A label that is not a class, on one rank of two: the step is skipped on both, then the error
// names the sample. On the CPU and on an emulated GPU, there with a captured step, too.
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 4, 4};
using layers = sequential<convolution<4, 3, 2>, batch_norm<relu>, global_average_pool, linear<3>>;
template <class D>
using net_of = network<layers, fp32, D, reference, image, 3>;

/// Two micro-batches of two samples. On rank 1 the last sample of the second has label 3.
struct samples {
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(4 * image.size());
  std::vector<std::int32_t> labels{0, 1, 2, 0};

  explicit samples(bool bad) {
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(37 * i % 251);
    if (bad) labels.back() = 3;
  }
  [[nodiscard]] batch<cpu> pass(std::size_t k, std::int64_t ranks) {
    return {{pixels.data() + 2 * k * image.size(), 2 * image.size()},
            {labels.data() + 2 * k, 2},
            2,
            4 * ranks,
            static_cast<int>(ranks)};
  }
};

/// What the error of a step with a bad label says, and whether each rank kept every bit: of
/// weights, statistics and momentum.
template <class D, class O>
std::string step_with_bad_label(int ranks, const O& optimizer, bool capture_graphs = false) {
  std::array<bool, 2> kept{};
  const std::string message = error_message([&] {
    threads::launch(
        ranks,
        [&](threads comm) {
          D device{};
          net_of<D> net{device};
          trainer run{net,
                      optimizer,
                      constant{.learning_rate = 0.1},
                      ring{comm},
                      {.capture_graphs = capture_graphs}};
          upload<D> uploaded(device);
          const auto step = [&](bool bad) {
            samples host(bad);
            const std::array micro{host.pass(0, ranks), host.pass(1, ranks)};
            (void)run.step(uploaded.to(micro, run.compute()), 0);
          };
          const auto planes = [&] {
            auto all = copy_to_host<float, D>(device, run.weights(), run.compute());
            const auto momentum = copy_to_host<float, D>(device, run.slot(0), run.compute());
            all.insert(all.end(), momentum.begin(), momentum.end());
            return all;
          };
          for (int k = 0; k < 3; ++k) step(false);
          const auto before = planes();
          const auto compare = [&] {
            kept[static_cast<std::size_t>(comm.rank())] = same_bits(before, planes());
          };
          try {
            step(comm.rank() == ranks - 1);
          } catch (...) {
            compare();
            throw;
          }
          compare();
        },
        long_deadline);
  });
  for (int r = 0; r < ranks; ++r) CHECK(kept[static_cast<std::size_t>(r)]);
  return message;
}

}  // namespace

TEST_CASE("a label out of range: every rank skips the step, then the error names it") {
  const char* const expected =
      "sample 1 of the batch has label 3, but the network has classes 0 to 2";
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    CHECK(contains(step_with_bad_label<cpu>(ranks, sgd{.momentum = 0.9}), expected));
    CHECK(contains(step_with_bad_label<deferred>(ranks, lars{}), expected));
  }
  CHECK(contains(step_with_bad_label<deferred>(1, lars{}, true), expected));
}
