// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is the length of the file of images (two bytes, little-endian), that file and the file
// of labels: they are refused with an error, or every example can be read.
#include <cordee/data/idx.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const fuzz::memory_file images, labels;
  const std::span<const std::uint8_t> files(data + 2, size - 2);
  const std::size_t split = std::min<std::size_t>(data[0] + 256u * data[1], files.size());
  images.set(files.first(split));
  labels.set(files.subspan(split));
  try {
    const idx set(images.path(), labels.path());
    std::vector<std::uint8_t> pixels(set.size() == 0 ? 0 : set.image().size());
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int label = set.read(i, pixels);
      fuzz::require(label >= 0 && label < set.classes(), "a label is one of the classes");
    }
  } catch (const error&) {
  }
  return 0;
}
