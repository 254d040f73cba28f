// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a tar shard: it is refused with an error, or every sample of it can be read.
#include <cordee/images/webdataset.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::memory_file input;
  input.set({data, size});
  try {
    const webdataset set(input.path(), {.classes = 1 << 30, .broken = broken_image::skip});
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int label = set.read(i, bytes);
      fuzz::require(label >= 0 && label < set.classes(), "a label is one of the classes");
      fuzz::require(bytes.size() <= size, "a member lies in the file");
      fuzz::require(!set.name(i).empty(), "a sample has a name");
    }
    fuzz::require(set.order(1, 2).size() == set.size(), "the order has every sample");
  } catch (const error&) {
  }
  return 0;
}
