// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a file of packed images. As it is, its checksums are seldom right; so its first byte
// decides whether it is read as it is, or with those of its index and its end made anew.
#include <cordee/images/packed_images.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::images;

namespace {

void set_checksums(std::span<std::uint8_t> file) {
  packed_tail tail;
  if (file.size() < sizeof tail) return;
  const std::size_t end = file.size() - sizeof tail;
  std::memcpy(&tail, file.data() + end, sizeof tail);
  if (tail.index <= end)
    tail.checksum =
        detail::io::crc32c(file.first(end).subspan(static_cast<std::size_t>(tail.index)));
  tail.tail_checksum = checksum_of(tail);
  std::memcpy(file.data() + end, &tail, sizeof tail);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fuzz::memory_file input;
  std::vector<std::uint8_t> file(data + 1, data + size), bytes;
  if (data[0] % 2 != 0) set_checksums(file);
  input.set(file);
  try {
    const packed_images set(input.path());
    for (std::size_t i = 0; i < set.size(); ++i) try {
        fuzz::require(set.name(i).size() < set.describe().size() + size, "a name lies in the file");
        const int label = set.read(i, bytes);
        fuzz::require(label == set.label(i) && label >= 0 && label < set.classes(),
                      "a label is one of the classes");
        fuzz::require(bytes.size() < size, "an image lies in the file");
        if (raw_pixels::is_raw(bytes)) (void)raw_pixels::size(bytes, "input");
      } catch (const sample_error&) {
      }
  } catch (const error&) {
  }
  return 0;
}
