// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/io/gzip.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace support;

namespace {

// A gzip file with one stored (uncompressed) block and, unless empty, a file name in the header.
// The checksum is that of RFC 1952.
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

file_bytes read_decompressed(const std::string& path) {
  detail::io::decompressed_file file(path);
  file_bytes bytes;
  file.append_to(bytes, 1u << 30);
  CHECK(file.at_end());
  return bytes;
}
[[maybe_unused]] file_bytes bytes_of(const std::string& s) { return {s.begin(), s.end()}; }

}  // namespace

TEST_CASE("gzip: a file that is not compressed is read unchanged, whatever its name") {
  const folder f;
  for (const file_bytes& bytes : {file_bytes{}, file_bytes{0x1f}, file_bytes{0x1f, 0x8c, 8}})
    CHECK(read_decompressed(f.put("x.gz", bytes)) == bytes);
}

#if defined(CORDEE_HAS_ZLIB)

TEST_CASE("gzip: a compressed file is decompressed, with and without a file name in its header") {
  const folder f;
  for (const std::string name : {"", "train-images.idx3-ubyte"})
    CHECK(read_decompressed(f.put("x", stored("cordee\n", name))) == bytes_of("cordee\n"));
}

TEST_CASE("gzip: members of a file are concatenated") {
  const folder f;
  file_bytes two = stored("one, ", "");
  const file_bytes second = stored("two", "b");
  two.insert(two.end(), second.begin(), second.end());
  CHECK(read_decompressed(f.put("x", two)) == bytes_of("one, two"));
}

TEST_CASE("gzip: a file that decompresses to much more than its size is read completely") {
  const folder f;
  const file_bytes zeros(3000000, 0);
  const gzFile out = gzopen(f.file("x").c_str(), "wb9");
  CHECK(gzwrite(out, zeros.data(), static_cast<unsigned>(zeros.size())) == 3000000);
  CHECK(gzclose(out) == Z_OK);
  CHECK(f.get("x").size() < 10000);
  CHECK(read_decompressed(f.file("x")) == zeros);
}

TEST_CASE("gzip: no more is decompressed than is asked for") {
  const folder f;
  const std::string member(60000, 'x');
  const file_bytes good = stored(member, "");
  file_bytes bad = good, all;
  bad[1000] ^= 1;  // damage that whoever decompresses it finds
  for (int k = 0; k < 4; ++k) all.insert(all.end(), good.begin(), good.end());
  for (int k = 0; k < 30; ++k) all.insert(all.end(), bad.begin(), bad.end());
  detail::io::decompressed_file file(f.put("x", all));
  file_bytes bytes;
  file.append_to(bytes, 100);
  CHECK(bytes.size() == 100);
  file.append_to(bytes, 4 * 60000);
  CHECK(bytes == file_bytes(4 * 60000, 'x'));
  CHECK_FALSE(file.at_end());
  CHECK(contains_all(message_of<error>([&] { file.append_to(bytes, 1u << 30); }),
                     {f.file("x"), "incorrect data check"}));
}

TEST_CASE("gzip: memory is used for what a file has, not for what the caller expects") {
  const folder f;
  detail::io::decompressed_file file(f.put("x", stored("cordee", "")));
  file_bytes bytes;
  file.append_to(bytes, std::uint64_t{1} << 60);
  CHECK(bytes == bytes_of("cordee"));
  CHECK(bytes.capacity() < 10000000);
}

TEST_CASE("gzip: every truncation is an error that names file and offset") {
  const folder f;
  const file_bytes whole = stored("cordee\n", "name");
  for (std::size_t n = 2; n < whole.size(); ++n) {
    CAPTURE(n);
    const auto path = f.put("x", file_bytes(whole.begin(), whole.begin() + static_cast<long>(n)));
    CHECK(contains_all(message_of<error>([&] { read_decompressed(path); }),
                       {path, "ends too early, at offset"}));
  }
}

TEST_CASE("gzip: a flipped bit in content or checksum is an error that names file and offset") {
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
      CHECK(contains_all(message_of<error>([&] { read_decompressed(path); }), {path, "at offset"}));
    }
}

TEST_CASE("gzip: bytes after the last member that are not a member are an error") {
  const folder f;
  file_bytes bytes = stored("cordee\n", "");
  bytes.insert(bytes.end(), {1, 2, 3, 4});
  const auto path = f.put("x", bytes);
  CHECK(contains_all(message_of<error>([&] { read_decompressed(path); }), {path, "at offset"}));
}

#else

TEST_CASE("gzip: what a compressed file has is read") { support::skip("built without zlib"); }

TEST_CASE("gzip: without zlib a compressed file is an error that names the remedy") {
  const folder f;
  const auto path = f.put("x.gz", stored("cordee\n", ""));
  CHECK(contains_all(message_of<error>([&] { read_decompressed(path); }),
                     {path, "gunzip " + path, "build with zlib"}));
}

#endif
