// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The largest batch of ResNet-50 that the plan of cordee-plan does not refuse, in fp16 at 224
// pixels with momentum, and what recompute makes of it.
#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "examples/plan/memory.hpp"

using namespace cordee;

namespace {

template <bool Recompute>
struct resnet50_in_fp16 {
  void visit(int, int samples, const plan::layout_visitor& f) const {
    resnet<50, fp16, plan::sized_gpu, resnet_options{.recompute = Recompute}, tensor_core> net;
    f(net.pass_layout(), net.memory_of_pass(samples), net.plane_size());
  }
};

bool fits(const auto& network, int samples, double bytes) {
  try {
    plan::print_memory(network, 2, samples, 1, {}, bytes, "card", false);
    return true;
  } catch (const error&) {
    return false;
  }
}
int largest_batch(const auto& network, double bytes) {
  int most = 0, too_many = 1 << 14;
  REQUIRE(!fits(network, too_many, bytes));
  while (too_many - most > 1) {
    const int middle = (most + too_many) / 2;
    (fits(network, middle, bytes) ? most : too_many) = middle;
  }
  return most;
}

}  // namespace

TEST_CASE("largest batch: with recompute at least 2.2 times as many images on a card") {
  for (const double bytes : {16e9, 80e9}) {
    const int plain = largest_batch(resnet50_in_fp16<false>{}, bytes),
              recomputed = largest_batch(resnet50_in_fp16<true>{}, bytes);
    MESSAGE("" << bytes / 1e9 << " GB: " << plain << " images, " << recomputed
               << " with recompute: " << static_cast<double>(recomputed) / plain << " times");
    CHECK(recomputed >= 2.2 * plain);
  }
}
