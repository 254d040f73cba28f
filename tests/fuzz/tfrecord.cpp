// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a TFRecord file. As it is, its checksums are seldom right; so its first byte decides
// whether it is read as it is, or as the Example of a record with the right ones.
#include <cordee/images/tfrecord.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace cordee::detail::io;

namespace {

std::vector<std::uint8_t> framed(std::span<const std::uint8_t> data) {
  std::vector<std::uint8_t> out;
  const auto append = [&](std::uint64_t number, int bytes) {
    for (int k = 0; k < bytes; ++k) out.push_back(static_cast<std::uint8_t>(number >> (8 * k)));
  };
  append(data.size(), 8);
  append(masked_crc(crc32c(out)), 4);
  out.insert(out.end(), data.begin(), data.end());
  append(masked_crc(crc32c(data)), 4);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fuzz::memory_file input;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 0)
    input.set(rest);
  else
    input.set(framed(rest));
  try {
    const tfrecord set(input.path(), {.image = "i", .label = "l"});
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < set.size(); ++i) try {
        const int label = set.read(i, bytes);
        fuzz::require(label >= 0 && label < set.classes(), "a label is one of the classes");
        fuzz::require(bytes.size() <= size, "an image lies in its record");
      } catch (const sample_error&) {
      }
  } catch (const error&) {
  }
  return 0;
}
