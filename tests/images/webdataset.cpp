// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/data/split.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/webdataset.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/images/records.hpp"
#include "tests/images/tar.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/read_calls.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Three shards of 25 samples each: labels 0 .. 4, and members of other endings.
struct shards {
  folder f;

  shards() {
    for (int s = 0; s < 3; ++s) {
      std::vector<tar_entry> entries;
      for (int i = 0; i < 25; ++i) {
        const std::string key = concat("n", i % 5, "/", 1000 * s + i);
        entries.push_back({key + ".cls", to_bytes(concat(i % 5, i % 2 == 0 ? "\n" : ""))});
        entries.push_back({key + (i % 3 == 0 ? ".png" : ".JPG"), image(s, i)});
        entries.push_back({key + ".json", to_bytes("{}")});
      }
      entries.push_back({"README", to_bytes("a text")});
      f.put(concat("train-00", s, ".tar"), make_tar(entries));
    }
  }
  static file_bytes image(int s, int i) {
    file_bytes out = to_bytes(concat("image ", s, " ", i));
    out.resize(out.size() + static_cast<std::size_t>(i * 37));
    return out;
  }
  std::string pattern() const { return f.file("train-{000..002}.tar"); }
};

struct one_shard {
  folder f;
  webdataset make(const std::vector<tar_entry>& entries, webdataset_options options = {}) const {
    return webdataset(f.put("x.tar", make_tar(entries)), options);
  }
  std::string refusal(const std::vector<tar_entry>& entries,
                      webdataset_options options = {}) const {
    return message_of<error>([&] { make(entries, options); });
  }
};

const tar_entry a_jpg{"a.jpg", to_bytes("image a")}, a_cls{"a.cls", to_bytes("0")},
    b_jpg{"b.jpg", to_bytes("image b")}, b_cls{"b.cls", to_bytes("1")};

}  // namespace

TEST_CASE("webdataset: images and labels of all shards, in the order of the files") {
  const shards s;
  const webdataset data(s.pattern(), {.shuffle_buffer = 10});
  CHECK(data.size() == 75);
  CHECK(data.classes() == 5);
  file_bytes file(100000);
  for (std::size_t i = 0; i < 75; ++i) {
    CHECK(data.read(i, file) == static_cast<int>(i % 25 % 5));
    CHECK(file == shards::image(static_cast<int>(i / 25), static_cast<int>(i % 25)));
  }
  CHECK(data.name(26) == concat(s.f.file("train-001.tar"), ", n1/1001.JPG"));
  CHECK_THROWS_AS(data.read(75, file), usage_error);
  CHECK_THROWS_AS((void)data.name(75), usage_error);
  CHECK(encoded_dataset_laws(data) == "");
  CHECK(webdataset(s.pattern(), {.classes = 7}).classes() == 7);
}

TEST_CASE("webdataset: any split of an epoch's order by ranks has every sample once") {
  const shards s;
  const webdataset data(s.pattern(), {.shuffle_buffer = 10});
  for (const std::size_t ranks : {1u, 2u, 3u, 5u, 8u}) {
    std::vector<int> used(data.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const webdataset own = data;
      const auto order = own.order(4, 7);
      for (std::size_t k = 75 * rank / ranks; k < 75 * (rank + 1) / ranks; ++k) ++used[order[k]];
    }
    CHECK(used == std::vector<int>(75, 1));
  }
}

TEST_CASE("webdataset: suspicious members are refused by name, or left out and counted") {
  const one_shard shard;
  const std::vector<tar_entry> bad{
      {"/abs/c.jpg", to_bytes("c")},    {"../d.jpg", to_bytes("d")},
      {"e.jpg", {}, AE_IFLNK, "a.jpg"}, {"f.jpg", {}, AE_IFREG, "a.jpg", true},
      {"g.jpg", {}, AE_IFIFO},          {"h.jpg", to_bytes("no label")},
      {"i.cls", to_bytes("4")},         {"k.cls", to_bytes("many")}};
  std::vector<tar_entry> all{a_jpg, a_cls};
  for (const tar_entry& entry : bad) {
    INFO(entry.name);
    const std::string reason = shard.refusal({a_jpg, a_cls, entry, b_jpg, b_cls});
    CHECK(contains_all(reason, {"x.tar, " + entry.name, "set .broken = broken_image::skip"}));
    all.push_back(entry);
  }
  all.insert(all.end(), {b_jpg, b_cls});
  const webdataset data = shard.make(all, {.broken = broken_image::skip});
  CHECK(data.size() == 2);
  file_bytes file;
  CHECK(data.read(1, file) == 1);
  CHECK(file == b_jpg.data);
  CHECK(contains_all(data.describe(),
                     {"2 samples in 1 tar shards, 2 classes",
                      "; 8 members are left out: ", "1: its path is absolute (", "/abs/c.jpg)"}));
}

TEST_CASE("webdataset: a second image or label of a sample is refused, or left out") {
  const one_shard shard;
  const tar_entry other{"a.png", to_bytes("other")}, label{"a.cls", to_bytes("5")};
  CHECK(contains_all(shard.refusal({a_jpg, other, a_cls}),
                     {"x.tar, a.png: a second image or label"}));
  CHECK(contains_all(shard.refusal({a_jpg, a_cls, label}),
                     {"x.tar, a.cls: a second image or label"}));
  const webdataset data = shard.make({a_jpg, other, a_cls, label}, {.broken = broken_image::skip});
  file_bytes file;
  CHECK(data.size() == 1);
  CHECK(data.read(0, file) == 0);
  CHECK(file == a_jpg.data);
}

TEST_CASE("webdataset: labels are decimal numbers below the number of classes") {
  const one_shard shard;
  for (const char* const text : {"", "-1", "+1", "1.0", "0x1", "1 2", "99999999999", "2147483647",
                                 "                                      1"})
    CHECK(
        contains_all(shard.refusal({a_jpg, {"a.cls", to_bytes(text)}}), {"a.cls: it is no label"}));
  for (const char* const text : {"7", " 7", "7\r\n", "007"})
    CHECK(shard.make({a_jpg, {"a.cls", to_bytes(text)}}).classes() == 8);
  CHECK(contains_all(shard.refusal({a_jpg, a_cls, b_jpg, b_cls}, {.classes = 1}),
                     {"b.jpg: label 1, expected 0 to 0", ".first_label = 1"}));
  CHECK(message_of<usage_error>([&] { shard.make({a_jpg, a_cls}, {.first_label = -1}); }) != "");
  CHECK(contains_all(message_of<usage_error>([&] {
                       shard.make({a_jpg, a_cls}, {.classes = -1});
                     }),
                     {"webdataset: .classes is negative"}));
}

TEST_CASE(
    "webdataset: labels that begin at 1, and settings that do not fit, are no broken samples") {
  const one_shard shard;
  const std::vector<tar_entry> entries{
      {"a.jpg", {}}, {"a.cls", to_bytes("1")}, {"b.jpg", {}}, {"b.cls", to_bytes("2")}};
  const webdataset data = shard.make(entries, {.classes = 2, .first_label = 1});
  CHECK(data.label(0) == 0);
  CHECK(data.label(1) == 1);
  CHECK(shard.make(entries, {.first_label = 1}).classes() == 2);
  CHECK(shard.make(entries).describe().ends_with(
      "; no label is below 1: set .first_label, or .classes"));
  CHECK(contains_all(shard.refusal(entries, {.classes = 2, .broken = broken_image::skip}),
                     {"b.jpg: label 2, expected 0 to 1"}));
  CHECK(contains_all(shard.refusal(entries, {.first_label = 2, .broken = broken_image::skip}),
                     {"a.cls: label 1, expected 2 or more; set .first_label"}));
}

TEST_CASE("webdataset: no sample vanishes by a name with two dots, and others are counted") {
  const one_shard shard;
  const tar_entry image{"0.4.jpg", to_bytes("i")}, label{"0.4.cls", to_bytes("1")};
  for (const auto& entries :
       {std::vector{a_jpg, a_cls, image, label}, std::vector{image, label, a_jpg, a_cls},
        std::vector{a_jpg, a_cls, image}, std::vector{label, a_jpg, a_cls},
        std::vector<tar_entry>{{"0.jpg", {}}, {"0.cls", to_bytes("1")}, image, label}})
    CHECK(contains_all(shard.refusal(entries), {"x.tar, 0.4.", "ends at the first dot"}));
  const webdataset data =
      shard.make({a_jpg, a_cls, image, label, b_jpg, b_cls, {"b.seg.png", {}}, {"b.json", {}}},
                 {.broken = broken_image::skip});
  CHECK(data.size() == 2);
  CHECK(contains_all(data.describe(),
                     {"2 members are left out: 2: a sample's name ends at the first dot",
                      "2 members are passed over: 1: members .json (b.json); "
                      "1: members .seg.png (b.seg.png)"}));
}

TEST_CASE(
    "webdataset: keys end at the first dot, and files without one or hidden are passed over") {
  const one_shard shard;
  const webdataset data = shard.make({{"v1.0/a.jpg", to_bytes("x")},
                                      {"v1.0/a.cls", to_bytes("1")},
                                      {"v1.0/a.seg.png", to_bytes("mask")},
                                      {".b.jpg", to_bytes("hidden")},
                                      {"jpg", to_bytes("none")}});
  CHECK(data.size() == 1);
  CHECK(data.name(0) == shard.f.file("x.tar") + ", v1.0/a.jpg");
  CHECK(contains_all(data.describe(), {"3 members are passed over", "1: hidden files (.b.jpg)",
                                       "1: members without an ending (jpg)"}));
  CHECK(contains_all(shard.refusal({{"a.webp", to_bytes("x")}}),
                     {"x.tar: no samples", "passed over: 1: members .webp (a.webp)"}));
  CHECK(contains_all(message_of<error>([&] { webdataset(shard.f.file("y-{0..3}.tar")); }),
                     {"cannot read ", "y-0.tar"}));
}

TEST_CASE("webdataset: split takes the labels from the index and reads nothing") {
  const shards s;
  const webdataset data(s.pattern());
  const read_calls before = count_reads(), own = count_reads() - before;
  const auto parts = split(decoded_images{data, resize_center_crop{256, 224}}, 0.2, 1);
  const read_calls reads = count_reads() - before - own;
  CHECK(parts.validation.size() == 15);
  for (std::size_t i = 0; i < parts.training.size(); ++i)
    CHECK(parts.training.label(i) == static_cast<int>(parts.training.indices()[i] % 25 % 5));
  CHECK(reads.calls == own.calls);
  CHECK_THROWS_AS((void)data.label(75), usage_error);
}
