// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include <cordee/io/save_tensors.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/io/tensors.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

TEST_CASE("save_tensors: saved tensors are read bit by bit, with names, shapes and metadata") {
  const folder f;
  std::vector<float> w = numbers(64, 1), b = numbers(4, 2);
  w[0] = std::numeric_limits<float>::quiet_NaN();
  w[1] = -0.0f;
  w[2] = std::numeric_limits<float>::denorm_min();
  const std::vector<double> d{0.1, 1e300};
  const std::vector<tensor_view> tensors{{"layer1.0.conv1.weight", {4, 1, 4, 4}, w},
                                         {"fc.bias", {4}, b},
                                         {"scalar", {}, std::span(b).first(1)},
                                         {"none", {0, 7}, std::span<const float>()},
                                         {"quoted \"name\" \\ \n Cord\u00e9e", {2}, d}};
  const tensor_metadata metadata{{"format", "pt"}, {"epoch", "90"}, {"\u00e9", "\"\t\""}};
  save_tensors(f.file("x"), tensors, metadata);
  const tensor_file file = tensor_file::open(f.file("x"));

  CHECK(file.metadata() == metadata);
  CHECK(file.entries().size() == tensors.size());
  for (const tensor_view& t : tensors) {
    CAPTURE(t.name);
    REQUIRE(file.contains(t.name));
    CHECK(file.at(t.name).shape == t.shape);
    CHECK(file.at(t.name).dtype == t.dtype);
  }
  CHECK(cordee::same_bits(read<float>(file, "layer1.0.conv1.weight", 64), w));
  CHECK(read<float>(file, "fc.bias", 4) == b);
  CHECK(read<double>(file, tensors[4].name, 2) == d);
  CHECK(read<float>(file, "none", 0).empty());
}

TEST_CASE_TEMPLATE("save_tensors: integers are read with their type alone", T, std::int8_t,
                   std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                   std::uint32_t, std::uint64_t) {
  const folder f;
  const std::vector<T> w{std::numeric_limits<T>::min(), 1, std::numeric_limits<T>::max()};
  save_tensors(f.file("x"), std::vector<tensor_view>{{"w", {3}, std::span(w)}});
  const tensor_file file = tensor_file::open(f.file("x"));
  CHECK(file.at("w").dtype == concat(std::is_unsigned_v<T> ? "U" : "I",
                                     std::numeric_limits<std::make_unsigned_t<T>>::digits));
  std::vector<T> back(3);
  file.read("w", std::span(back));
  CHECK(back == w);
  std::vector<std::make_unsigned_t<T>> other(3);
  const auto message = message_of<error>([&] { file.read("w", std::span(other)); });
  CHECK(message.empty() == std::is_unsigned_v<T>);
}

TEST_CASE("save_tensors: the header is padded to a multiple of 8, and every tensor is aligned") {
  const folder f;
  const std::vector<float> a{1};
  const std::vector<double> d{2};
  for (const std::string name :
       {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    save_tensors(f.file("x"), std::vector<tensor_view>{{name, {1}, a}, {"double", {1}, d}});
    CHECK(f.get("x")[0] % 8 == 0);
    const tensor_file file = tensor_file::open(f.file("x"));
    CHECK(file.at("double").offset % 8 == 0);
    CHECK(file.at(name).offset % 4 == 0);
  }
}

TEST_CASE("save_tensors: a file without tensors is valid") {
  const folder f;
  save_tensors(f.file("x"), {});
  CHECK(tensor_file::open(f.file("x")).names().empty());
}

TEST_CASE("save_tensors: wrong shapes and duplicate names are a usage_error of save_tensors") {
  const folder f;
  const std::vector<float> a{1, 2};
  const auto save = [&](std::vector<tensor_view> t) {
    return message_of<usage_error>([&] { save_tensors(f.file("x"), t); });
  };
  CHECK(contains_all(save({{"a", {3}, a}}), {"shape"}));
  CHECK(contains_all(save({{"a", {1ull << 63, 4}, a}}), {"shape"}));
  CHECK(contains_all(save({{"a", {2}, a}, {"a", {2}, a}}), {"same name"}));
  CHECK(contains_all(save({{"__metadata__", {2}, a}}), {"__metadata__"}));
  CHECK(f.files() == 0);
}
