// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights of a network in int8 as if it had been trained: batch norms of any sign, ranges that clip
// some numbers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/nn/network.hpp>

namespace support {

template <class N>
std::vector<float> random_plane(std::uint64_t seed) {
  using namespace cordee;
  std::vector<float> plane(N::plane_size());
  N().initialize({plane.data(), plane.size()}, seed);
  random_sequence draw(seed, purpose::test, 0, 0);
  for (const segment& s : N::segments())
    for (std::size_t i = 0; i < s.size; ++i) {
      float& v = plane[s.offset + i];
      const auto random = static_cast<float>(draw.uniform());  // 0 .. 1
      if (s.kind == kind::scale) v = 1.6F * random - 0.4F;
      if (s.kind == kind::shift || s.kind == kind::bias) v = random - 0.3F;
      if (s.name.ends_with("running_mean")) v = random - 0.5F;
      if (s.name.ends_with("running_var")) v = 0.5F + random;
      if (s.name.ends_with("input_min")) v = s.name == "conv1.input_min" ? -1.5F : 0;
      if (s.name.ends_with("input_max")) v = 2 + random;
    }
  return plane;
}

/// The segment of that name.
template <class N>
const cordee::segment& segment_named(std::string_view name) {
  for (const cordee::segment& s : N::segments())
    if (s.name == name) return s;
  throw cordee::error("no such segment");
}

}  // namespace support
