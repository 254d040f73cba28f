// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/question.hpp>

using namespace cordee;
using detail::convolution_pass;

static_assert(detail::CudnnNumber<float> && detail::CudnnNumber<half> &&
              detail::CudnnNumber<bfloat> && !detail::CudnnNumber<double>);

TEST_CASE("question: in memory a pixel is whole 16 bytes, no more than it needs") {
  CHECK(detail::in_memory<float>(1) == 4);
  CHECK(detail::in_memory<float>(4) == 4);
  CHECK(detail::in_memory<half>(3) == 8);
  CHECK(detail::in_memory<bfloat>(9) == 16);
  const convolution_problem p = detail::in_memory<half>({{3, 9, 7}, 20, 3, 2, 1});
  CHECK(p == convolution_problem{{8, 9, 7}, 24, 3, 2, 1});
}

TEST_CASE("question: its words name the layer, the pass, and the numbers") {
  const convolution_problem p{{64, 56, 56}, 128, 3, 2, 1};
  CHECK(to_text(detail::cudnn_question{p, 32, convolution_pass::dgrad, CUDNN_DATA_HALF, true}) ==
        "dgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 32 samples in fp16, added");
  CHECK(to_text(detail::cudnn_question{p, 1, convolution_pass::wgrad, CUDNN_DATA_BFLOAT16}) ==
        "wgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 1 samples in bf16");
  CHECK(to_text(detail::cudnn_question{p, 2, convolution_pass::fprop, CUDNN_DATA_FLOAT}) ==
        "fprop of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 2 samples in fp32");
}
