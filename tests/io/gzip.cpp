// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/io/gzip.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

// "cordee" and a newline, stored by hand: one block that is not compressed, with a file name in the
// header. The checksum is that of RFC 1952.
file_bytes stored(const std::string& content, const std::string& name) {
  file_bytes out{0x1f, 0x8b, 8, static_cast<std::uint8_t>(name.empty() ? 0 : 8), 0, 0, 0, 0, 0, 3};
  if (!name.empty()) {
    // One by one: g++ 12 sees an overrun in the insertion of a range that is not there.
    for (const char c : name) out.push_back(static_cast<std::uint8_t>(c));
    out.push_back(0);
  }
  const auto n = static_cast<std::uint16_t>(content.size());
  const auto low = [](unsigned x) { return static_cast<std::uint8_t>(x & 0xff); };
  for (const unsigned x :
       {1u, unsigned{n} & 0xff, unsigned{n} >> 8, ~unsigned{n} & 0xff, (~unsigned{n} >> 8) & 0xff})
    out.push_back(low(x));
  out.insert(out.end(), content.begin(), content.end());
  std::uint32_t crc = ~0u;
  for (const char c : content) {
    crc ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  crc = ~crc;
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(low(crc >> shift));
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(low(unsigned{n} >> shift));
  return out;
}

[[maybe_unused]] file_bytes letters(const std::string& s) { return {s.begin(), s.end()}; }

}  // namespace

TEST_CASE("a file that is not compressed is read as it is, whatever its name") {
  const folder f;
  for (const file_bytes& bytes : {file_bytes{}, file_bytes{0x1f}, file_bytes{0x1f, 0x8c, 8}})
    CHECK(read_unpacked(f.put("x.gz", bytes)) == bytes);
}

#if defined(CORDEE_HAS_ZLIB)

TEST_CASE("a gzip file is unpacked, with a file name in its header or without") {
  const folder f;
  for (const std::string name : {"", "train-images.idx3-ubyte"})
    CHECK(read_unpacked(f.put("x", stored("cordee\n", name))) == letters("cordee\n"));
}

TEST_CASE("gzip members stand one after another") {
  const folder f;
  file_bytes two = stored("one, ", "");
  const file_bytes second = stored("two", "b");
  two.insert(two.end(), second.begin(), second.end());
  CHECK(read_unpacked(f.put("x", two)) == letters("one, two"));
}

TEST_CASE("a gzip file that unpacks to much more than its own size is read whole") {
  const folder f;
  const file_bytes zeros(3000000, 0);
  const gzFile out = gzopen(f.file("x").c_str(), "wb9");
  CHECK(gzwrite(out, zeros.data(), static_cast<unsigned>(zeros.size())) == 3000000);
  CHECK(gzclose(out) == Z_OK);
  CHECK(f.get("x").size() < 10000);
  CHECK(read_unpacked(f.file("x")) == zeros);
}

TEST_CASE("every truncation of a gzip file is an error that names file and offset") {
  const folder f;
  const file_bytes whole = stored("cordee\n", "name");
  for (std::size_t n = 2; n < whole.size(); ++n) {
    CAPTURE(n);
    const auto path = f.put("x", file_bytes(whole.begin(), whole.begin() + static_cast<long>(n)));
    CHECK(says(said<error>([&] { read_unpacked(path); }), {path, "ends too early, at offset"}));
  }
}

TEST_CASE("a flipped bit in content or checksum is an error that names file and offset") {
  const folder f;
  const file_bytes whole = stored("cordee\n", "");
  for (std::size_t at = 10; at < whole.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (at == 10 && bit >= 3) continue;  // the rest of a stored block's first byte is padding
      CAPTURE(at);
      CAPTURE(bit);
      file_bytes bad = whole;
      bad[at] = static_cast<std::uint8_t>(bad[at] ^ (1u << bit));
      const auto path = f.put("x", bad);
      CHECK(says(said<error>([&] { read_unpacked(path); }), {path, "at offset"}));
    }
}

TEST_CASE("what follows a gzip file and is none is an error") {
  const folder f;
  file_bytes bytes = stored("cordee\n", "");
  bytes.insert(bytes.end(), {1, 2, 3, 4});
  const auto path = f.put("x", bytes);
  CHECK(says(said<error>([&] { read_unpacked(path); }), {path, "at offset"}));
}

#else

TEST_CASE("without zlib a gzip file is refused with what to do") {
  const folder f;
  const auto path = f.put("x.gz", stored("cordee\n", ""));
  CHECK(
      says(said<error>([&] { read_unpacked(path); }), {path, "gunzip " + path, "build with zlib"}));
}

#endif
