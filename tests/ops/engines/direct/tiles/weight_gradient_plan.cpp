// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The plans of the layers of ResNet-20 and ResNet-50, for both common register files, without
// running one.
#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/weight_gradient_plan.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct golden_plan {  // of 128 samples
  convolution_problem layer;
  wgrad_kernel kernel;
  int gather_stride, filter_parts, groups;
  int samples_at_once, band_rows;  // of the largest task
  std::size_t workspace;
};

template <int V>
void check(const golden_plan& golden) {
  const weight_gradient_plan plan = plan_weight_gradient<float, V>(golden.layer, 128);
  CAPTURE(V);
  CAPTURE(support::describe(golden.layer));
  CHECK(plan.kernel == golden.kernel);
  CHECK(plan.gather_stride == golden.gather_stride);
  CHECK(plan.filter_parts == golden.filter_parts);
  CHECK(plan.groups == golden.groups);
  CHECK(plan.workspace() == golden.workspace);
  const int blocks = (plan.filter_blocks + plan.filter_parts - 1) / plan.filter_parts;
  const int samples = plan.samples_at_once(blocks, 128 / plan.groups);
  CHECK(samples == golden.samples_at_once);
  CHECK(plan.band_rows(blocks, samples) == golden.band_rows);
}

constexpr golden_plan avx512[] = {
    {{{3, 32, 32}, 16, 3, 1, 1}, wgrad_kernel::image3x3, 1, 1, 8, 16, 2, 3456},
    {{{16, 32, 32}, 16, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 1, 8, 1, 32, 18432},
    {{{16, 32, 32}, 32, 3, 2, 1}, wgrad_kernel::rows3x3, 1, 1, 8, 1, 4, 36864},
    {{{16, 32, 32}, 32, 1, 2, 0}, wgrad_kernel::single_tap, 2, 1, 8, 2, 16, 528384},
    {{{64, 8, 8}, 64, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 2, 4, 16, 8, 147456},
    {{{3, 224, 224}, 64, 7, 2, 3}, wgrad_kernel::padded_image, 1, 2, 4, 1, 2, 37632},
    {{{64, 56, 56}, 64, 1, 1, 0}, wgrad_kernel::single_tap, 1, 2, 4, 1, 12, 16384},
    {{{64, 56, 56}, 64, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 2, 4, 1, 14, 147456},
    {{{128, 56, 56}, 128, 3, 2, 1}, wgrad_kernel::rows3x3, 1, 4, 2, 1, 3, 294912},
    {{{256, 56, 56}, 512, 1, 2, 0}, wgrad_kernel::single_tap, 2, 16, 1, 1, 14, 25690112},
    {{{512, 7, 7}, 512, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 16, 1, 20, 7, 0},
    {{{2048, 7, 7}, 512, 1, 1, 0}, wgrad_kernel::single_tap, 1, 16, 1, 13, 7, 0},
};

constexpr golden_plan avx2[] = {
    {{{3, 32, 32}, 16, 3, 1, 1}, wgrad_kernel::image3x3, 1, 1, 8, 16, 2, 3456},
    {{{16, 32, 32}, 16, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 1, 8, 2, 32, 18432},
    {{{16, 32, 32}, 32, 3, 2, 1}, wgrad_kernel::rows3x3, 1, 2, 4, 1, 8, 18432},
    {{{16, 32, 32}, 32, 1, 2, 0}, wgrad_kernel::single_tap, 2, 2, 4, 1, 16, 526336},
    {{{64, 8, 8}, 64, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 4, 2, 32, 8, 73728},
    {{{3, 224, 224}, 64, 7, 2, 3}, wgrad_kernel::padded_image, 1, 4, 2, 1, 4, 18816},
    {{{64, 56, 56}, 64, 1, 1, 0}, wgrad_kernel::single_tap, 1, 3, 2, 1, 4, 8192},
    {{{64, 56, 56}, 64, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 4, 2, 1, 28, 73728},
    {{{128, 56, 56}, 128, 3, 2, 1}, wgrad_kernel::rows3x3, 1, 8, 1, 1, 6, 0},
    {{{256, 56, 56}, 512, 1, 2, 0}, wgrad_kernel::single_tap, 2, 22, 1, 1, 7, 25690112},
    {{{512, 7, 7}, 512, 3, 1, 1}, wgrad_kernel::rows3x3, 1, 32, 1, 41, 7, 0},
    {{{2048, 7, 7}, 512, 1, 1, 0}, wgrad_kernel::single_tap, 1, 22, 1, 5, 7, 0},
};

constexpr weight_gradient_plan small =
    plan_weight_gradient<float, 8>({{16, 32, 32}, 16, 3, 1, 1}, 128);

}  // namespace

// The plan is a constant expression.
static_assert(small.kernel == wgrad_kernel::rows3x3 && small.filter_blocks == 2);

TEST_CASE("weight_gradient_plan: the layers of ResNet-20 and ResNet-50, AVX-512") {
  for (const golden_plan& golden : avx512) check<16>(golden);
}

TEST_CASE("weight_gradient_plan: the layers of ResNet-20 and ResNet-50, AVX2") {
  if (many_registers<float, 8>) return;  // SVE of 32 bytes
  for (const golden_plan& golden : avx2) check<8>(golden);
}

TEST_CASE("weight_gradient_plan: eight tasks or more, by groups of samples where filters are few") {
  for (const int filters : {1, 8, 16, 33, 64, 512})
    for (const int samples : {8, 128}) {
      const auto plan = plan_weight_gradient<float, 8>({{16, 8, 8}, filters, 3, 1, 1}, samples);
      CAPTURE(filters);
      CHECK(plan.groups * plan.filter_parts >= 5);
      CHECK((plan.groups == 1 || plan.groups * plan.filter_parts <= 8));
      CHECK((plan.group_sums_size > 0) == (plan.groups > 1));
    }
}

TEST_CASE("weight_gradient_plan: a tap's outputs are those whose input lies inside the image") {
  for (const int stride : {1, 2, 3})
    for (const int padding : {0, 1, 3}) {
      const auto plan = plan_weight_gradient<float, 8>({{16, 9, 9}, 16, 5, stride, padding}, 1);
      const int outputs = plan.out.height;
      for (int r = 0; r < 5; ++r)
        for (int i = 0; i < outputs; ++i) {
          CAPTURE(stride);
          CAPTURE(padding);
          CAPTURE(r);
          CAPTURE(i);
          const int h = i * stride + r - padding;
          CHECK((h >= 0 && h < 9) ==
                (i >= plan.first_output(r) && i < plan.last_output(r, 9, outputs)));
        }
    }
}
