// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/data/cifar.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr std::size_t pixels = 3072;

/// Records with the given labels, whose pixels encode their indices `first`, `first` + 1, …
file_bytes records(std::size_t first, std::initializer_list<file_bytes> labels) {
  file_bytes bytes;
  for (const file_bytes& label : labels) {
    bytes.insert(bytes.end(), label.begin(), label.end());
    for (std::size_t p = 0; p < pixels; ++p)
      bytes.push_back(static_cast<std::uint8_t>(p / 1024 * 64 + p % 32 + 3 * first));
    ++first;
  }
  return bytes;
}
void put_training(const folder& f) {
  f.put("data_batch_1.bin", records(0, {{0}, {9}}));
  f.put("data_batch_2.bin", records(2, {{1}}));
  f.put("data_batch_3.bin", records(3, {{2}, {3}, {4}}));
  f.put("data_batch_4.bin", records(6, {{5}}));
  f.put("data_batch_5.bin", records(7, {{6}, {7}}));
}
file_bytes prefix(const file_bytes& bytes, std::size_t n) {
  return {bytes.begin(), bytes.begin() + static_cast<long>(n)};
}

}  // namespace

TEST_CASE("cifar10: the five files are one data set in their order, with pixels and labels") {
  const folder f;
  put_training(f);
  const cifar10 data{f.file("")};
  CHECK(data.size() == 9);
  CHECK(data.image() == extent{3, 32, 32});
  CHECK(data.classes() == 10);
  const int labels[] = {0, 9, 1, 2, 3, 4, 5, 6, 7};
  file_bytes x(pixels);
  for (std::size_t i = 0; i < 9; ++i) {
    CHECK(data.read(i, x) == labels[i]);
    const file_bytes expected = records(i, {{}});
    CHECK(x == expected);
  }
  CHECK_THROWS_AS(data.read(9, x), usage_error);
  x.resize(pixels - 1);
  CHECK_THROWS_AS(data.read(0, x), usage_error);
}

TEST_CASE("cifar10: the test images are read from their file alone") {
  const folder f;
  f.put("test_batch.bin", records(5, {{3}, {8}}));
  const cifar10 data{f.file(""), cifar10::test};
  file_bytes x(pixels);
  CHECK(data.size() == 2);
  CHECK(data.read(1, x) == 8);
  CHECK(x == records(6, {{}}));
}

TEST_CASE("cifar100: the second label is the fine class, the first the coarse one") {
  const folder f;
  f.put("train.bin", records(0, {{19, 99}, {0, 1}, {7, 20}}));
  f.put("test.bin", records(9, {{4, 44}}));
  const cifar100 fine{f.file("")}, coarse{f.file(""), cifar100::train, cifar100::coarse},
      test{f.file(""), cifar100::test};
  CHECK(fine.classes() == 100);
  CHECK(coarse.classes() == 20);
  CHECK(fine.size() == 3);
  CHECK(test.size() == 1);
  file_bytes x(pixels), y(pixels);
  CHECK(fine.read(0, x) == 99);
  CHECK(coarse.read(0, y) == 19);
  CHECK(x == y);
  CHECK(fine.read(2, x) == 20);
  CHECK(x == records(2, {{}}));
  CHECK(test.read(0, x) == 44);
}

TEST_CASE("cifar: a missing file is named, with the script that fetches it") {
  const folder f;
  CHECK(contains_all(message_of<error>([&] { cifar10{f.file("")}; }),
                     {"data_batch_1.bin", "scripts/get-data cifar-10"}));
  put_training(f);
  std::filesystem::remove(f.file("data_batch_4.bin"));
  CHECK(contains_all(message_of<error>([&] { cifar10{f.file("")}; }), {"data_batch_4.bin"}));
  CHECK(contains_all(message_of<error>([&] { cifar10(f.file(""), cifar10::test); }),
                     {"test_batch.bin"}));
  CHECK(contains_all(message_of<error>([&] { cifar100{f.file("")}; }),
                     {"train.bin", "scripts/get-data cifar-100"}));
}

TEST_CASE("cifar: a truncated file and one of another format are refused, with file and offset") {
  const folder f;
  put_training(f);
  const file_bytes two = records(2, {{1}, {2}});
  for (const std::size_t n : {1u, 3072u, 3074u, 6145u}) {
    CAPTURE(n);
    f.put("data_batch_2.bin", prefix(two, n));
    const std::string offset = concat("found ", n % 3073, " bytes at offset ", n / 3073 * 3073);
    CHECK(contains_all(
        message_of<error>([&] { cifar10{f.file("")}; }),
        {"data_batch_2.bin", "truncated", "records of 3073 bytes", offset, "get-data"}));
  }
  f.put("data_batch_2.bin", {});
  CHECK(contains_all(message_of<error>([&] { cifar10{f.file("")}; }),
                     {"data_batch_2.bin: empty", "offset 0"}));
  f.put("train.bin", records(0, {{1}}));  // CIFAR-10's
  CHECK(contains_all(message_of<error>([&] { cifar100{f.file("")}; }),
                     {"train.bin", "3074 bytes, found 3073 bytes at offset 0"}));
}

TEST_CASE("cifar: a file larger than the memory is refused by its size") {
  const folder f;
  f.put("test_batch.bin", {});
  std::filesystem::resize_file(f.file("test_batch.bin"), (std::uintmax_t{1} << 42) / 3073 * 3073);
  CHECK(contains_all(message_of<error>([&] { cifar10(f.file(""), cifar10::test); }),
                     {f.file("/test_batch.bin"), "do not fit the memory"}));
}

TEST_CASE("cifar: a label out of range is named, with its offset and the expected range") {
  const folder f;
  put_training(f);
  f.put("data_batch_5.bin", records(0, {{6}, {10}}));
  CHECK(contains_all(message_of<error>([&] { cifar10{f.file("")}; }),
                     {"data_batch_5.bin: label 10 at offset 3073", "expected 0 to 9"}));
  f.put("train.bin", records(0, {{19, 99}, {20, 99}}));
  CHECK(contains_all(message_of<error>([&] { cifar100{f.file("")}; }),
                     {"train.bin: label 20 at offset 3074", "expected 0 to 19"}));
  f.put("train.bin", records(0, {{19, 99}, {19, 100}}));
  CHECK(contains_all(message_of<error>([&] { cifar100{f.file("")}; }),
                     {"train.bin: label 100 at offset 3075", "expected 0 to 99"}));
}

TEST_CASE("cifar: copies share memory and do not need the files") {
  std::vector<cifar10> copies;
  {
    const folder f;
    f.put("test_batch.bin", records(1, {{1}}));
    const cifar10 data{f.file(""), cifar10::test};
    copies = {data, data};
  }
  file_bytes a(pixels), b(pixels);
  CHECK(copies[0].read(0, a) == copies[1].read(0, b));
  CHECK(a == b);
}
