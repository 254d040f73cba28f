// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/descriptor.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using detail::cudnn_descriptor;
using support::complaint;

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

TEST_CASE("descriptor: attributes are what was set, one or several") {
  const cudnn_descriptor t = tensor().finalised();
  CHECK(t.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID) == 7);
  CHECK(t.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES) ==
        std::vector<std::int64_t>{240, 1, 48, 16});
  CHECK(t.values<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
        std::vector<cudnnDataType_t>{CUDNN_DATA_HALF});
}

TEST_CASE("descriptor: an error names the call, the attribute, and what cuDNN says of it") {
  const std::string early = complaint([] { (void)tensor().integer(CUDNN_ATTR_TENSOR_UNIQUE_ID); });
  CAPTURE(early);
  CHECK(early.find("cudnnBackendGetAttribute of attribute 906") != std::string::npos);
  CHECK(early.find("CUDNN_STATUS_") != std::string::npos);
  const std::string strange = complaint([] {
    (void)cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .with(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_HALF);
  });
  CAPTURE(strange);
  CHECK(strange.find("cudnnBackendSetAttribute of attribute 100") != std::string::npos);
  const std::string empty =
      complaint([] { (void)cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalised(); });
  CAPTURE(empty);
  CHECK(empty.find("cudnnBackendFinalize") != std::string::npos);
}
