// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/plan_key.hpp>

using namespace cordee;
using detail::ops::convolution_pass;

static_assert(detail::ops::CudnnType<float> && detail::ops::CudnnType<half> &&
              detail::ops::CudnnType<bfloat> && !detail::ops::CudnnType<double>);

TEST_CASE("plan_key: channels are padded to 16 bytes, and no further") {
  CHECK(detail::ops::padded_channels<float>(1) == 4);
  CHECK(detail::ops::padded_channels<float>(4) == 4);
  CHECK(detail::ops::padded_channels<half>(3) == 8);
  CHECK(detail::ops::padded_channels<bfloat>(9) == 16);
  const convolution_problem p = detail::ops::padded_problem<half>({{3, 9, 7}, 20, 3, 2, 1});
  CHECK(p == convolution_problem{{8, 9, 7}, 24, 3, 2, 1});
}

TEST_CASE("plan_key: describe names the layer, the pass and the data type") {
  const convolution_problem p{{64, 56, 56}, 128, 3, 2, 1};
  CHECK(describe(
            detail::ops::cudnn_plan_key{p, 32, convolution_pass::dgrad, CUDNN_DATA_HALF, true}) ==
        "dgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 32 samples in fp16, "
        "accumulated");
  CHECK(describe(detail::ops::cudnn_plan_key{p, 1, convolution_pass::wgrad, CUDNN_DATA_BFLOAT16}) ==
        "wgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 1 samples in bf16");
  CHECK(describe(detail::ops::cudnn_plan_key{p, 2, convolution_pass::fprop, CUDNN_DATA_FLOAT}) ==
        "fprop of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 2 samples in fp32");
}
