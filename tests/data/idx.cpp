// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/data/idx.hpp>
#include <cordee/data/normalize.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace support;

namespace {

void put_word(file_bytes& out, std::uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(x >> shift));
}
file_bytes images(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  file_bytes out;
  for (const std::uint32_t x : {2051u, count, height, width}) put_word(out, x);
  for (std::uint32_t i = 0; i < count * height * width; ++i)
    out.push_back(static_cast<std::uint8_t>(i * 7));
  return out;
}
file_bytes labels(std::uint32_t count, std::uint8_t classes = 10) {
  file_bytes out;
  for (const std::uint32_t x : {2049u, count}) put_word(out, x);
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(static_cast<std::uint8_t>(i % classes));
  return out;
}
file_bytes prefix(const file_bytes& bytes, std::size_t n) {
  return {bytes.begin(), bytes.begin() + static_cast<long>(n)};
}

struct two_files {
  folder f;
  std::string refusal(const file_bytes& i, const file_bytes& l, int classes = 10) const {
    const auto a = f.put("images", i), b = f.put("labels", l);
    return message_of<error>([&] { idx(a, b, classes); });
  }
};

}  // namespace

TEST_CASE("idx: pixels and labels of any count and extent") {
  const folder f;
  for (const std::uint32_t count : {0u, 1u, 2u, 11u})
    for (const auto& [h, w] : {std::pair{1u, 1u}, std::pair{28u, 28u}, std::pair{3u, 5u}}) {
      const file_bytes raw = images(count, h, w);
      const idx data(f.put("i", raw), f.put("l", labels(count)));
      CHECK(data.size() == count);
      CHECK(data.image() == extent{1, static_cast<int>(h), static_cast<int>(w)});
      CHECK(data.classes() == 10);
      const std::size_t each = h * w;
      file_bytes x(each);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(data.read(i, x) == static_cast<int>(i % 10));
        CHECK(std::equal(x.begin(), x.end(), raw.begin() + static_cast<long>(16 + i * each)));
      }
      CHECK_THROWS_AS(data.read(count, x), usage_error);
    }
}

TEST_CASE("idx: swapped paths are reported as such") {
  const two_files t;
  CHECK(contains_all(t.refusal(labels(2), images(2, 4, 4)),
                     {t.f.file("images"), "expected the magic number 2051 at offset 0, found 2049",
                      "these are labels, not images"}));
  CHECK(contains_all(t.refusal(images(2, 4, 4), images(2, 4, 4)),
                     {t.f.file("labels"), "2049", "these are images, not labels"}));
}

TEST_CASE("idx: a file of another format is refused by its magic number") {
  const two_files t;
  CHECK(contains_all(t.refusal({'P', 'K', 3, 4, 0, 0, 0, 0}, labels(2)),
                     {t.f.file("images"), "expected the magic number 2051 at offset 0, found"}));
}

TEST_CASE("idx: every truncation and every surplus byte is refused with file and offset") {
  const two_files t;
  const file_bytes i = images(2, 3, 3), l = labels(2);
  for (std::size_t n = 0; n < i.size(); ++n) {
    CAPTURE(n);
    CHECK(contains_all(t.refusal(prefix(i, n), l),
                       {t.f.file("images"), "truncated", concat("at offset ", n)}));
  }
  for (std::size_t n = 0; n < l.size(); ++n) {
    CAPTURE(n);
    CHECK(contains_all(t.refusal(i, prefix(l, n)),
                       {t.f.file("labels"), "truncated", concat("at offset ", n)}));
  }
  file_bytes longer = i;
  longer.push_back(0);
  CHECK(contains_all(t.refusal(longer, l),
                     {"too long", "expected 2 records to end at offset 34", "35"}));
}

TEST_CASE("idx: different counts, invalid sides and labels out of range are refused") {
  const two_files t;
  CHECK(contains_all(t.refusal(images(3, 2, 2), labels(2)), {"3 images", "2 labels", "offset 4"}));
  CHECK(contains_all(t.refusal(images(0, 0, 2), labels(0)), {"at offset 8, found 0"}));
  CHECK(contains_all(t.refusal(images(0, 2, 0), labels(0)), {"at offset 12, found 0"}));
  file_bytes huge = images(0, 2, 2);
  for (std::size_t at = 4; at < 16; ++at) huge[at] = 0xff;  // a product that would overflow
  CHECK(contains_all(t.refusal(huge, labels(0)), {"at offset 8, found 4294967295"}));
  CHECK(contains_all(t.refusal(images(3, 2, 2), labels(3), 2),
                     {t.f.file("labels"), "label 2 at offset 10", "expected 0 to 1"}));
  CHECK(t.refusal(images(3, 2, 2), labels(3), 3).empty());
}

TEST_CASE("idx: a sparse file of 4 TiB is refused by its header, or by its size, unread") {
  const two_files t;
  const auto sparse = [&](const file_bytes& header, const file_bytes& l) {
    const auto a = t.f.put("images", header), b = t.f.put("labels", l);
    std::filesystem::resize_file(a, std::uintmax_t{1} << 42);
    return message_of<error>([&] { idx(a, b, 10); });
  };
  CHECK(contains_all(sparse({}, labels(2)), {"the magic number 2051 at offset 0, found 0"}));
  CHECK(contains_all(sparse(images(2, 3, 3), labels(2)),
                     {"too long: expected 2 records to end at offset 34", "offset 4398046511104"}));
}

TEST_CASE("idx: missing files are named, plain and gzipped, with a remedy") {
  const folder f;
  CHECK(contains_all(message_of<error>([&] { idx(f.file("a"), f.file("b")); }),
                     {f.file("a"), f.file("a") + ".gz", "scripts/get-data"}));
}

TEST_CASE("idx: copies share memory and do not need the files") {
  std::vector<idx> copies;
  {
    const folder f;
    const idx data(f.put("i", images(2, 2, 2)), f.put("l", labels(2)));
    copies = {data, data};
  }
  file_bytes a(4), b(4);
  CHECK(copies[0].read(1, a) == copies[1].read(1, b));
  CHECK(a == b);
}

#if defined(CORDEE_HAS_ZLIB)
TEST_CASE("idx: where NAME does not exist, NAME.gz is read") {
  const folder f;
  const file_bytes raw = images(2, 3, 3), l = labels(2);
  for (const auto& [name, bytes] : {std::pair{"i.gz", &raw}, std::pair{"l.gz", &l}}) {
    const gzFile out = gzopen(f.file(name).c_str(), "wb");
    CHECK(gzwrite(out, bytes->data(), static_cast<unsigned>(bytes->size())) > 0);
    CHECK(gzclose(out) == Z_OK);
  }
  const idx data(f.file("i"), f.file("l"));
  CHECK(data.size() == 2);
  file_bytes x(9);
  CHECK(data.read(1, x) == 1);
  CHECK(x[8] == raw.back());
  CHECK(idx(f.file("i.gz"), f.file("l.gz")).size() == 2);
}

TEST_CASE("idx: a compressed file is not decompressed beyond what its header announces") {
  const folder f;
  const auto compress = [&](const std::string& name, const file_bytes& bytes, int zeros) {
    const gzFile out = gzopen(f.file(name).c_str(), "wb9");
    CHECK(gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())) > 0);
    const file_bytes chunk(1u << 20);
    for (int k = 0; k < zeros; ++k) CHECK(gzwrite(out, chunk.data(), 1u << 20) == 1 << 20);
    CHECK(gzclose(out) == Z_OK);
  };
  compress("i", images(2, 3, 3), 64);
  compress("l", labels(2), 0);
  file_bytes bomb = f.get("i");
  bomb.end()[-5] ^= 1;  // its checksum, which whoever decompresses all of it finds wrong
  f.put("i", bomb);
  const auto refusal = [&] { return message_of<error>([&] { idx(f.file("i"), f.file("l")); }); };
  CHECK(contains_all(refusal(), {f.file("i"), "too long", "2 records to end at offset 34"}));
  // A header that announces 4 EiB, and a file that has 18 bytes of them.
  file_bytes boast = images(2, 3, 3);
  for (const std::size_t at : {4u, 5u, 6u, 7u}) boast[at] = 0xff;
  boast[10] = boast[14] = 0x80;
  boast[11] = boast[15] = 0;
  compress("i", boast, 0);
  CHECK(contains_all(refusal(), {f.file("i"), "truncated", "found the end at offset 34"}));
}
#else
TEST_CASE("idx: what a .gz file has is read") { skip("built without zlib"); }

TEST_CASE("idx: without zlib a .gz is refused with a remedy") {
  const folder f;
  f.put("i.gz", {0x1f, 0x8b, 8});
  f.put("l", labels(2));
  CHECK(contains_all(message_of<error>([&] { idx(f.file("i"), f.file("l")); }),
                     {f.file("i.gz"), "gunzip"}));
}
#endif

#if defined(CORDEE_SOURCE_DIR)
TEST_CASE("idx: the bundled test files of Fashion-MNIST have 1,000 images of each class") {
  const std::string prefix = std::string(CORDEE_SOURCE_DIR) + "/data/fashion-mnist/t10k-";
  const idx data(prefix + "images-idx3-ubyte", prefix + "labels-idx1-ubyte");
  CHECK(data.size() == 10000);
  CHECK(data.image() == extent{1, 28, 28});
  std::vector<int> counts(10);
  file_bytes x(784);
  for (std::size_t i = 0; i < data.size(); ++i)
    ++counts.at(static_cast<std::size_t>(data.read(i, x)));
  CHECK(counts == std::vector<int>(10, 1000));
  const normalize n = normalize::measured(data);
  CHECK(n.mean[0] > 0.28);
  CHECK(n.mean[0] < 0.29);
  CHECK(n.deviation[0] > 0.35);
  CHECK(n.deviation[0] < 0.36);
}
#endif
