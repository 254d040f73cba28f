// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/mpi/transfers.hpp>

using namespace cordee;
using detail::comm::mpi_batch;
using detail::comm::mpi_tags;
using detail::comm::mpi_transfer;

namespace {

// Rank 0 sends messages of `sent` bytes to itself and expects `expected` bytes; describes what
// fails.
std::string send_to_self(mpi_tags& tags, std::vector<std::size_t> sent,
                         std::vector<std::size_t> expected, MPI_Comm comm) {
  static std::deque<std::vector<std::vector<char>>>
      all;  // outlives messages that are never received
  std::vector<std::vector<char>>& source = all.emplace_back();
  std::vector<std::vector<char>> target;
  std::vector<mpi_transfer> out, in;
  for (const std::size_t n : sent) source.emplace_back(n, static_cast<char>('a' + source.size()));
  for (const std::size_t n : expected) target.emplace_back(n);
  for (auto& x : source) out.push_back({0, x.data(), x.size()});
  for (auto& x : target) in.push_back({0, x.data(), x.size()});
  mpi_batch batch({.rank = 0, .size = 1}, 0, comm, in, out);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  try {
    batch.start(tags);
    while (!batch.progress() && std::chrono::steady_clock::now() < until) batch.check_pending();
  } catch (const error& e) {
    while (!batch.cancel() && std::chrono::steady_clock::now() < until) {
    }
    return e.what();
  }
  if (std::chrono::steady_clock::now() >= until)
    return "still waits for " + batch.describe_pending();
  return source == target ? "" : "other data";
}

}  // namespace

TEST_CASE("mpi_batch: short and long messages arrive in order, with their sizes") {
  detail::comm::mpi_session::start();
  for (const auto& sizes : {std::vector<std::size_t>{8}, {9000}, {8, 9000, 4000, 4001, 0, 7}}) {
    mpi_tags tags(1);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    for (int k = 0; k < 3; ++k) CHECK(send_to_self(tags, sizes, sizes, comm) == "");
    MPI_Comm_free(&comm);
  }
}

TEST_CASE(
    "mpi_batch: another size is an error, of a short or a long message, and none overtakes "
    "another") {
  detail::comm::mpi_session::start();
  const std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> mismatches{
      {{8}, {16}},           {{16}, {8}},   {{9000}, {8000}},
      {{9000}, {8}},         {{8}, {9000}}, {{9000, 8}, {8, 9000}},
      {{8, 9000}, {9000, 8}}};
  for (const auto& [sent, expected] : mismatches) {
    mpi_tags tags(1);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);  // not freed: holds messages that are never received
    CHECK(send_to_self(tags, sent, expected, comm) ==
          concat("rank 0 expects ", expected[0], " bytes from rank 0 on context 0, which sends ",
                 sent[0], ": the ranks disagree on what they exchange"));
  }
}

TEST_CASE(
    "mpi_tags: a tag has number and kind of a message, within the range that MPI guarantees") {
  mpi_tags tags(2);
  const auto tag = [&](int peer, std::size_t size, bool receive) {
    mpi_transfer t{peer, nullptr, size};
    receive ? tags.assign_receive(t) : tags.assign_send(t);
    return t.tag;
  };
  CHECK(tag(1, 9000, true) == 0);
  CHECK(tag(1, 8, true) == 3);
  CHECK(tag(1, 9000, true) == 4);
  CHECK(tag(0, 8, true) == 1);
  CHECK(tag(1, 9000, false) == 0);
  int highest = 0;
  for (int k = 0; k < 40000; ++k) highest = std::max(highest, tag(0, 8, false));
  CHECK(highest == 32767);
}
