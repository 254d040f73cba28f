// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer networks of random weights, and their logits of random images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"
#include "tests/support/folder.hpp"

namespace support {

using namespace cordee;

template <resnet_options Options, int Depth = 8>
using random_resnet = resnet<Depth, int8, cpu, Options>;
constexpr resnet_options tiny_image{.image = {1, 9, 8}, .classes = 3, .zero_gamma = false};

template <class N>
integer_network random_integers(std::uint64_t seed, integer_network_options options = {}) {
  return integer_network::from<N>(random_plane<N>(seed), {{0.4F, 0.5F, 0.3F, 0}, {4, 3, 5, 1}},
                                  cpu(), options);
}

inline std::vector<std::int32_t> logits_of(integer_network& net, std::size_t samples = 5) {
  std::vector<std::uint8_t> images(samples * net.image().size());
  random_sequence draw(9, purpose::test, 0, 0);
  for (auto& pixel : images) pixel = static_cast<std::uint8_t>(draw.below(256));
  std::vector<std::int32_t> logits(samples * net.classes());
  net.run(images, logits);
  return logits;
}

/// Inserts a text of the header at an offset of a file.
inline void lengthen(file_bytes& file, std::size_t at, std::string_view text) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  length += text.size();
  std::memcpy(file.data(), &length, sizeof length);
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), text.begin(), text.end());
}

}  // namespace support
