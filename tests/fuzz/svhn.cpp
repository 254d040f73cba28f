// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a MATLAB file of SVHN's digits. As it is, its streams seldom have the right
// checksums; so its first byte decides whether it is read as it is, or as the length of X's element
// (two bytes, little-endian), that element and y's, which are compressed here.
#include <cordee/images/svhn.hpp>

#include "tests/fuzz/memory_file.hpp"
#if defined(CORDEE_HAS_ZLIB)
#include "tests/images/mat.hpp"
#endif

using namespace cordee;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  static const fuzz::memory_file input;
  if (data[0] % 2 == 0) input.set({data + 1, size - 1});
#if defined(CORDEE_HAS_ZLIB)
  else {
    const std::size_t x = std::min<std::size_t>(data[1] + 256u * data[2], size - 3);
    input.set(support::mat_file_of({support::mat_compressed({data + 3, data + 3 + x}),
                                    support::mat_compressed({data + 3 + x, data + size})}));
  }
#endif
  try {
    const svhn set(input.path());
    fuzz::require(set.size() > 0, "a file has an image");
    std::vector<std::uint8_t> pixels(svhn::image().size());
    for (std::size_t i = 0; i < set.size(); ++i) {
      const int label = set.read(i, pixels);
      fuzz::require(label >= 0 && label < svhn::classes(), "a label is one of the classes");
    }
  } catch (const error&) {
  }
  return 0;
}
