// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-50's 25.6 million parameters in their 161 segments, without names.
#pragma once

#include <cstddef>
#include <vector>

#include <cordee/core/segment.hpp>

namespace bench {

/// Convolutions, each with a batch norm's scale and shift, bottlenecks 3, 4, 6, 3, and the
/// classifier.
inline std::vector<cordee::segment> resnet50_table() {
  using namespace cordee;
  std::vector<segment> table;
  std::size_t offset = 0;
  const auto add = [&](kind what, int size) {
    table.push_back({"", what, offset, static_cast<std::size_t>(size)});
    offset += detail::core::align_up(table.back().size);
  };
  const auto convolution = [&](int in, int out, int window) {
    add(kind::weight, in * out * window * window);
    add(kind::scale, out);
    add(kind::shift, out);
  };
  convolution(3, 64, 7);
  int channels = 64, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      convolution(channels, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (i == 0) convolution(channels, 4 * width, 1);
      channels = 4 * width;
    }
    width *= 2;
  }
  add(kind::weight, channels * 1000);
  add(kind::bias, 1000);
  return table;
}

}  // namespace bench
