// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <doctest/doctest.h>

#include <cordee/images/file_range.hpp>
#include <cordee/images/tf_example.hpp>

#include "tests/images/records.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/read_calls.hpp"

using namespace cordee;
using namespace support;
using detail::images::file_block;
using detail::images::file_range;
using detail::images::tf_example;

namespace {

file_bytes noise(std::size_t size, std::uint32_t seed = 1) {
  file_bytes bytes(size);
  std::mt19937 random(seed);
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace

TEST_CASE("file_range: the bytes of the file, in any order, and parts as of a span") {
  const folder f;
  const file_bytes bytes = noise(3 * file_block::size + 17);
  const detail::io::input_file file(f.put("x", bytes));
  file_block block(file);
  const file_range all(block, 0, bytes.size()), part = all.subspan(5000).first(3000);
  CHECK(all.size() == bytes.size());
  CHECK(part.size() == 3000);
  CHECK(all.subspan(bytes.size()).empty());
  CHECK(file_range().empty());
  for (const std::size_t step : {std::size_t{1}, std::size_t{4095}, bytes.size() - 1})
    for (std::size_t k = 0, i = 0; k < bytes.size(); ++k, i = (i + step) % bytes.size())
      REQUIRE(all[i] == bytes[i]);
  for (std::size_t i = 0; i < part.size(); ++i) REQUIRE(part[i] == bytes[5000 + i]);
}

TEST_CASE("file_range: only the blocks that are used are read") {
  const folder f;
  const detail::io::input_file file(f.put("x", noise(1 << 20)));
  file_block block(file);
  const file_range all(block, 0, file.size());
  const read_calls before = count_reads(), own = count_reads() - before;
  int sum = 0;
  for (std::size_t i = 0; i < 1000; ++i) sum += all[i] + all.subspan(7)[i];
  const file_range end = all.subspan(all.size() - 100);
  for (std::size_t i = 0; i < 100; ++i) sum += end[i];
  const read_calls reads = count_reads() - before - own;
  CHECK(sum > 0);
  CHECK(reads.calls <= own.calls + 2);
  CHECK(reads.bytes >= 100 + 1000);
  CHECK(reads.bytes <= own.bytes + 2 * 4096 + 100);  // counts have grown by some digits
}

TEST_CASE("file_range: a parser finds in a damaged file what it finds in its bytes") {
  const folder f;
  std::mt19937 random(5);
  const file_bytes record = example(noise(9000), 417);
  int found = 0;
  for (int round = 0; round < 600; ++round) {
    file_bytes bytes = record;
    for (std::uint32_t k = random() % 4; k-- > 0;) {  // mostly where the framing is
      const std::size_t at = random() % 2 == 0 ? random() % 60 : bytes.size() - 1 - random() % 80;
      bytes[at] = static_cast<std::uint8_t>(random());
    }
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    if (bytes.empty()) continue;
    const detail::io::input_file file(f.put("x", bytes));
    file_block block(file);
    const tf_example here(bytes);
    const tf_example there(file_range(block, 0, bytes.size()));
    CHECK(there.integer("image/class/label") == here.integer("image/class/label"));
    CHECK(there.integer("image/height") == here.integer("image/height"));
    const auto image = here.bytes("image/encoded");
    const auto other = there.bytes("image/encoded");
    REQUIRE(image.has_value() == other.has_value());
    if (!image) continue;
    REQUIRE(image->size() == other->size());
    found += here.integer("image/class/label") == 417 ? 1 : 0;
    for (std::size_t i = 0; i < image->size(); i += 61) REQUIRE((*image)[i] == (*other)[i]);
  }
  CHECK(found > 100);
}

TEST_CASE("file_range: bytes that are gone are an error") {
  const folder f;
  const file_bytes bytes = noise(100000);
  const detail::io::input_file file(f.put("x", bytes));
  file_block block(file);
  const file_range all(block, 0, bytes.size());
  CHECK(all[3] == bytes[3]);
  std::filesystem::resize_file(f.file("x"), 50000);
  for (const std::size_t at : {60000u, 48000u}) {  // of the latter's block 2000 bytes are there
    CHECK(
        contains_all(message_of<error>([&] { (void)all[at]; }), {"x at offset", "it ends there"}));
    CHECK(all[4] == bytes[4]);  // read again
  }
}
