// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/descriptor.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using detail::ops::cudnn_descriptor;
using support::error_message;

namespace {

cudnn_descriptor tensor() {
  return cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .with(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{7})
      .with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_HALF)
      .with(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{2, 16, 5, 3})
      .with(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{240, 1, 48, 16})
      .with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
}

}  // namespace

TEST_CASE("descriptor: attributes read back as set, scalars and arrays") {
  const cudnn_descriptor t = tensor().finalized();
  CHECK(t.int64(CUDNN_ATTR_TENSOR_UNIQUE_ID) == 7);
  CHECK(t.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES) ==
        std::vector<std::int64_t>{240, 1, 48, 16});
  CHECK(t.values<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
        std::vector<cudnnDataType_t>{CUDNN_DATA_HALF});
}

TEST_CASE("descriptor: an error names the call, the attribute and cuDNN's status") {
  const std::string early =
      error_message([] { (void)tensor().int64(CUDNN_ATTR_TENSOR_UNIQUE_ID); });
  CAPTURE(early);
  CHECK(early.find("cudnnBackendGetAttribute of attribute 906") != std::string::npos);
  CHECK(early.find("CUDNN_STATUS_") != std::string::npos);
  const std::string strange = error_message([] {
    (void)cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .with(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_HALF);
  });
  CAPTURE(strange);
  CHECK(strange.find("cudnnBackendSetAttribute of attribute 100") != std::string::npos);
  const std::string empty =
      error_message([] { (void)cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalized(); });
  CAPTURE(empty);
  CHECK(empty.find("cudnnBackendFinalize") != std::string::npos);
}
