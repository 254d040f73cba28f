// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/data/split.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/tfrecord.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/images/encode.hpp"
#include "tests/images/records.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/read_calls.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Two files of 30 records, whose labels are 1 .. 5.
struct shards {
  folder f;
  std::vector<file_bytes> images;

  shards() {
    for (int s = 0; s < 2; ++s) {
      file_bytes file;
      for (int i = 0; i < 30; ++i) {
        images.push_back(encode_jpeg({"4:2:0", 3, {2, 2}}, 17 + i, 9, static_cast<unsigned>(i)));
        append(file, tf_record(example(images.back(), 1 + (s + i) % 5)));
      }
      f.put(concat("train-0", s, "-of-02"), file);
    }
  }
  std::string pattern() const { return f.file("train-{00..01}-of-02"); }
};

std::string refusal(const file_bytes& file) {
  const folder f;
  return message_of<error>([&] { tfrecord(f.put("x", file)); });
}

file_bytes read(const tfrecord& data, std::size_t i) {
  file_bytes file;
  data.read(i, file);
  return file;
}

}  // namespace

TEST_CASE("tfrecord: images and labels of all shards, in the order of the files") {
  const shards s;
  const tfrecord data(s.pattern(), {.classes = 5, .shuffle_buffer = 8});
  CHECK(data.size() == 60);
  CHECK(data.classes() == 5);
  file_bytes file(1000000);
  for (std::size_t i = 0; i < 60; ++i) {
    CHECK(data.read(i, file) == static_cast<int>((i / 30 + i % 30) % 5));
    CHECK(file == s.images[i]);
  }
  CHECK(data.name(31) == concat(s.f.file("train-01-of-02"), ", record 1"));
  CHECK_THROWS_AS(data.read(60, file), usage_error);
  CHECK_THROWS_AS((void)data.name(60), usage_error);
  CHECK(encoded_dataset_laws(data) == "");
}

TEST_CASE("tfrecord: a record whose data are damaged is a sample error, and the others are read") {
  const folder f;
  file_bytes file = tf_record(example(to_bytes("one"), 1));
  const std::size_t first = file.size();
  append(file, tf_record(example(to_bytes("two"), 2)));
  for (std::size_t at = 12; at < first; ++at) {
    file_bytes damaged = file;
    damaged[at] ^= 0x40;
    const tfrecord data(f.put("x", damaged));
    CHECK(message_of<sample_error>([&] {
            read(data, 0);
          }).starts_with(concat(f.file("x"), ", record 0: the checksum of its data is wrong")));
    CHECK(read(data, 1) == to_bytes("two"));
  }
}

TEST_CASE("tfrecord: a file whose framing is damaged or cut is refused when it is opened") {
  const file_bytes file = tf_record(example(to_bytes("one"), 1));
  for (std::size_t n = 1; n < file.size(); ++n)
    CHECK(contains_all(
        refusal(file_bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n))),
        {" at offset 0, record 0; it is truncated, damaged"}));
  for (std::size_t at = 0; at < 12; ++at) {
    file_bytes damaged = file;
    damaged[at] ^= 0x40;
    CHECK(contains_all(refusal(damaged), {"the checksum of a record's length is wrong"}));
  }
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{0},
                                     ~std::uint64_t{0} - 15, file.size() - std::uint64_t{15}}) {
    file_bytes large;
    append_number(large, length, 8);
    append_number(large, detail::io::masked_crc(detail::io::crc32c(large)), 4);
    large.resize(file.size());
    CHECK(contains_all(refusal(large), {concat("a record of "), " bytes, of which "}));
  }
  CHECK(contains_all(refusal({}), {"x: 0 bytes, no record; fetch it again"}));
}

TEST_CASE("tfrecord: features and labels that the options do not fit are no broken samples") {
  const folder f;
  const auto message = [&](const file_bytes& data, tfrecord_options options = {}) {
    const tfrecord set(f.put("x", tf_record(data)), options);
    const decoded_images skipping{set, resize_center_crop{32, 28}, {.broken = broken_image::skip}};
    file_bytes pixels(skipping.image().size());
    const std::string text = message_of<error>([&] { read(set, 0); });
    CHECK((text.empty() || text == message_of<error>([&] { skipping.read(0, pixels); })));
    CHECK((text.empty() || contains_all(text, {".image"}) ||
           text == message_of<error>([&] { (void)set.label(0); })));
    return text;
  };
  CHECK(contains_all(message(to_bytes("no example")),
                     {"record 0: not a tf.train.Example", ".image"}));
  CHECK(contains_all(message(example({}, 0)), {"label 0, expected 1 to 1000", ".first_label"}));
  CHECK(contains_all(message(example({}, 1001)), {"label 1001, expected 1 to 1000"}));
  CHECK(
      contains_all(message(example({}, 5), {.classes = 5, .first_label = 0}), {"expected 0 to 4"}));
  CHECK(message(example({}, -3), {.classes = 5, .first_label = -3}).empty());
  CHECK(message(example({}, 1000)).empty());
  CHECK(contains_all(message(example({}, 1), {.image = "jpeg"}), {"features jpeg and"}));
}

TEST_CASE("tfrecord: split reads what is beside the images, and no image") {
  const folder f;
  constexpr std::size_t count = 60, image = 200000;
  file_bytes file;
  for (std::size_t i = 0; i < count; ++i)
    append(file, tf_record(example(file_bytes(image, static_cast<std::uint8_t>(i)),
                                   static_cast<std::int64_t>(1 + i % 3))));
  const tfrecord data(f.put("x", file), {.classes = 3});
  const read_calls before = count_reads(), own = count_reads() - before;
  const auto parts = split(decoded_images{data, resize_center_crop{256, 224}}, 0.25, 1);
  const read_calls reads = count_reads() - before - own;
  CHECK(parts.validation.size() == 15);
  for (std::size_t i = 0; i < parts.training.size(); ++i)
    CHECK(parts.training.label(i) == static_cast<int>(parts.training.indices()[i] % 3));
  // Blocks before and after the image, and one of them again.
  constexpr auto most = static_cast<std::int64_t>(3 * count);
  CHECK(reads.bytes > 0);
  CHECK(reads.calls <= own.calls + most);
  CHECK(reads.bytes <= own.bytes + 100 + most * 4096);
  CHECK(reads.bytes < static_cast<std::int64_t>(count * image / 10));
}

TEST_CASE("tfrecord: the label of a damaged record is a label, or a sample error") {
  const folder f;
  const file_bytes file = tf_record(example(to_bytes("one"), 2));
  for (std::size_t at = 12; at + 4 < file.size(); ++at)
    for (const int bits : {0x01, 0x80, 0xff}) {
      file_bytes damaged = file;
      damaged[at] ^= static_cast<std::uint8_t>(bits);
      const tfrecord data(f.put("x", damaged), {.classes = 3});
      const std::string message = message_of<sample_error>([&] {
        const int label = data.label(0);
        CHECK(label >= 0);
        CHECK(label < 3);
      });
      CHECK((message.empty() || message.starts_with(concat(f.file("x"), ", record 0: "))));
    }
  CHECK_THROWS_AS((void)tfrecord(f.put("x", file)).label(1), usage_error);
}
