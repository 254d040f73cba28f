// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/same_table.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The message of each of 4 ranks where rank 2 has another table, or other buckets.
std::vector<std::string> messages(std::span<const segment> other, std::size_t bucket_limit,
                                  std::size_t limit_elsewhere = 1000) {
  const auto by_rank = on_ranks(4, [&](threads comm) {
    const bool odd = comm.rank() == 2;
    const std::span<const segment> table = odd ? other : std::span<const segment>(t4_table);
    return error_message([&] {
      detail::train::expect_same_table(
          comm, table, detail::core::make_buckets(table, odd ? bucket_limit : limit_elsewhere));
    });
  });
  return {by_rank.begin(), by_rank.end()};
}
void check_all(const std::vector<std::string>& messages, const char* expected) {
  for (const std::string& message : messages) CHECK(message == expected);
}

}  // namespace

TEST_CASE("same_table: equal tables and buckets pass on every rank") {
  check_all(messages(t4_table, 1000), "");
}

TEST_CASE("same_table: every rank throws the first tensor that differs, with shapes and rank") {
  auto renamed = t4_table;
  renamed[1].name = "b7";
  check_all(
      messages(renamed, 1000),
      "trainer: tensor 1 of the network differs: rank 0 has \"b1\" (2), bias at 64, rank 2 has "
      "\"b7\" (2), bias at 64: give every rank the same");
  auto reshaped = t4_table;
  reshaped[2].shape = {2, 1, 0, 0};
  reshaped[3].name = "later";
  check_all(
      messages(reshaped, 1000),
      "trainer: tensor 2 of the network differs: rank 0 has \"W2\" (2), weight at 128, rank 2 "
      "has \"W2\" (2, 1), weight at 128: give every rank the same");
}

TEST_CASE(
    "same_table: a table that ends early, or is longer, differs in the tensor after its end") {
  check_all(messages(std::span(t4_table).first(4), 1000),
            "trainer: tensor 4 of the network differs: rank 0 has \"seen\" (1), statistic at 256, "
            "rank 2 has none: give every rank the same");
  std::vector<segment> longer(t4_table.begin(), t4_table.end());
  longer.push_back({"extra", kind::statistic, 320, 3});
  check_all(messages(longer, 1000),
            "trainer: tensor 5 of the network differs: rank 0 has none, rank 2 has \"extra\" (3), "
            "statistic at 320: give every rank the same");
}

TEST_CASE("same_table: the same tensors in other buckets name bucket_bytes") {
  check_all(
      messages(t4_table, 64),
      "trainer: trainer_options::bucket_bytes, hence the buckets, differs: rank 0 has 256, rank 2 "
      "has 64, 64, 64, 64: give every rank the same");
}

TEST_CASE("same_table: as many buckets of other sizes, and a tensor of another kind") {
  check_all(
      messages(t4_table, 192, 128),
      "trainer: trainer_options::bucket_bytes, hence the buckets, differs: rank 0 has 128, 128, "
      "rank 2 has 192, 64: give every rank the same");
  auto other = t4_table;
  other[0].kind = kind::bias;
  check_all(
      messages(other, 1000),
      "trainer: tensor 0 of the network differs: rank 0 has \"W1\" (4), weight at 0, rank 2 has "
      "\"W1\" (4), bias at 0: give every rank the same");
}

TEST_CASE("same_table: a name that is longer than the message allows is cut") {
  const std::string name(500, 'x');
  auto renamed = t4_table;
  renamed[0].name = name;
  for (const std::string& message : messages(renamed, 1000)) {
    CHECK(contains(message, "rank 2 has \"xxxx"));
    CHECK(message.size() < 400);
  }
}
