// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of the user's own on an emulated GPU is resumed to the bit, and on the CPU.
#include <cstdint>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/data/batch_range.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/device_quadratic.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("emulated GPU: a model of the user's own is resumed to the bit, and on the CPU") {
  const folder files;
  const std::string runs = files.file("runs");
  const auto numbers = [](std::int64_t n) { return 0.125 * double(n % 5); };
  const auto one_sample = [](shift) { return 1; };
  const auto weights = [&](const auto& device, auto model, double until) {
    using D = std::remove_cvref_t<decltype(device)>;
    trainer run{model, sgd{}, fixed_rate{}, solo{}};
    batch_range feed{numbers, self_comm{}, {.global_batch = 1, .updates = 5}, one_sample};
    const bool resumes = until == 3 && run.resume(runs);
    if (until < 3)
      run.fit(feed, until, checkpoint{.folder = runs});
    else
      CHECK(run.fit(feed, until).steps == (resumes ? 8 : 15));
    return copy_to_host<double, D>(device, run.weights(), run.compute());
  };
  const deferred device(1);
  const auto on_gpu = [&](double until) {
    return weights(device, quadratic_model_on<fp64>(device), until);
  };
  const auto on_cpu = [&](double until) {
    return weights(cpu{1}, quadratic_model_of<fp64>(), until);
  };
  const auto whole = on_gpu(3);  // there is no checkpoint yet
  CHECK(!same_bits(on_gpu(1.4), whole));
  CHECK(same_bits(on_gpu(3), whole));
  CHECK(same_but_for_rounding(on_cpu(3), whole));
}
