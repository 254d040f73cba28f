// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs whose update is on the host go on with it on the GPU, and the other way round: their
// checkpoints are alike.
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/printed_by.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct eighth {
  double operator()(double) const { return 0.125; }
};
const weight_average resident{sgd{.momentum = 0.9, .weight_decay = 0.01},
                              exponential_average{.decay = 0.5}};
const on_host placed{resident};
constexpr int saved_at = 3, last = 6;

/// As the function of the same name in sharded.cpp, on one rank.
template <class O>
std::vector<float> train(const O& optimizer, const std::string& runs, bool resumes,
                         int async = -1) {
  const deferred device(5);
  written_model<fp16, deferred> model{.table = written_table, .on = device};
  trainer run{model, optimizer, eighth{}, solo{}, {.bucket_bytes = 1600}};
  if (resumes) {
    CHECK(run.resume(runs));
    model.step = saved_at;
  }
  while (run.steps_taken() < (async < 0 ? last : saved_at)) {
    batch<deferred> b;
    b.global_samples = b.count = 1;
    CHECK(run.step(std::array{b}, 0).applied);
  }
  if (async >= 0) {
    detail::checkpoints::run_folder folder(runs);
    folder.create();
    detail::checkpoints::checkpoint_writer writer;
    writer.save(run, folder, 1, async == 1);
    writer.finish(run.comm());
  }
  std::vector<float> all;
  const auto add = [&](auto plane) {
    const auto host = copy_to_host<float, deferred>(device, plane, run.compute());
    all.insert(all.end(), host.begin(), host.end());
  };
  add(run.weights());
  for (int k = 0; k < resident.slots; ++k) add(run.slot(k));
  return all;
}

/// Saves by one, resumes by the other.
template <class From, class To>
void goes_on(const From& from, const To& to, const std::vector<float>& whole, int async) {
  const folder files;
  train(from, files.file("runs"), false, async);
  std::vector<float> resumed;
  const std::string said = printed_by([&] {  // nothing: no difference is worth a line
    resumed = train(to, files.file("runs"), true);
  });
  CHECK(said == "");
  CHECK(same_bits(resumed, whole));
}

}  // namespace

TEST_CASE("on_host: a checkpoint goes on with the update on the host or on the GPU, to the bit") {
  const std::vector<float> whole = train(resident, "", false);
  CHECK(same_bits(train(placed, "", false), whole));
  for (const int async : {0, 1}) {
    goes_on(placed, placed, whole, async);
    goes_on(placed, resident, whole, async);
    goes_on(resident, placed, whole, async);
  }
}
