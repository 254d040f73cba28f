// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input of torchvision_goldens.py, and its forms of output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace support {

/// (height, width, channels) bytes of a linear congruential sequence.
inline std::vector<std::uint8_t> noise(int width, int height, int channels = 3) {
  std::vector<std::uint8_t> pixels;
  std::uint32_t state = 1;
  for (int k = 0; k < width * height * channels; ++k) {
    state = state * 1664525u + 1013904223u;
    pixels.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  return pixels;
}

/// (channels, height, width) of (height, width, channels).
inline std::vector<std::uint8_t> planar(std::span<const std::uint8_t> pixels,
                                        std::size_t channels = 3) {
  std::vector<std::uint8_t> planes(pixels.size());
  const std::size_t count = pixels.size() / channels;
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t c = 0; c < channels; ++c) planes[c * count + k] = pixels[k * channels + c];
  return planes;
}

inline std::vector<std::uint8_t> from_hexadecimal(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::uint8_t> bytes;
  for (std::size_t k = 0; k < text.size(); k += 2)
    bytes.push_back(static_cast<std::uint8_t>(16 * digit(text[k]) + digit(text[k + 1])));
  return bytes;
}

/// FNV-1a, 64 bits.
inline std::uint64_t fnv(std::span<const std::uint8_t> bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : bytes) h = (h ^ byte) * 0x100000001b3u;
  return h;
}

}  // namespace support
