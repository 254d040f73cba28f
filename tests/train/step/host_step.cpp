// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The host's part of a step whose update it makes, on a device that keeps time.
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/resnet50_table.hpp"
#include "tests/support/linked_device.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

struct quarter {
  double operator()(double) const { return 0.25; }
};

}  // namespace

TEST_CASE("on_host: copies overlap the backward pass") {
  const std::vector<segment> table = bench::resnet50_table();
  for (const std::size_t slice : {0, 4096}) {
    CAPTURE(slice);
    const linked_device device;
    auto& count = device.count();
    written_model<fp16, linked_device> model{.table = table, .on = device};
    model.computes = false;
    model.slice = slice;
    // All copies take a quarter of the backward pass, and the last layers, which have most of the
    // numbers, none more of it than the others.
    const auto backward_time = static_cast<double>(table.size()), copy_time = backward_time / 4;
    count.bytes_per_time = 25.6e6 * 4 / copy_time;
    trainer run{model, on_host{sgd{}, false, 1}, quarter{}, solo{}};
    batch<linked_device> b;
    b.count = 1;
    b.global_samples = 1;
    double backward = 0;
    const double begin = count.host_time;
    (void)run.step(std::array{b}, 0, [&] { backward = count.host_time - begin; });
    CHECK(backward == 0);  // the host has waited for nothing so far
    CHECK(count.host_time - begin >= backward_time);
    CHECK(count.host_time - begin < backward_time + copy_time / 2);
  }
}
