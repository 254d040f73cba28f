// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/mpi/batch.hpp>

using namespace cordee;
using detail::mpi_batch;
using detail::mpi_parcel;
using detail::mpi_tags;

namespace {

// Rank 0 says `said` bytes to itself and expects `heard`; what is wrong with it.
std::string to_myself(mpi_tags& tags, std::vector<std::size_t> said, std::vector<std::size_t> heard,
                      MPI_Comm on) {
  static std::deque<std::vector<std::vector<char>>> all;  // what is never heard lies there
  std::vector<std::vector<char>>& there = all.emplace_back();
  std::vector<std::vector<char>> here;
  std::vector<mpi_parcel> out, in;
  for (const std::size_t n : said) there.emplace_back(n, static_cast<char>('a' + there.size()));
  for (const std::size_t n : heard) here.emplace_back(n);
  for (auto& x : there) out.push_back({0, x.data(), x.size()});
  for (auto& x : here) in.push_back({0, x.data(), x.size()});
  mpi_batch b({.rank = 0, .size = 1}, 0, on, in, out);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  try {
    b.begin(tags);
    while (!b.finished() && std::chrono::steady_clock::now() < until) b.look();
  } catch (const error& e) {
    while (!b.withdrawn() && std::chrono::steady_clock::now() < until) {
    }
    return e.what();
  }
  if (std::chrono::steady_clock::now() >= until) return "in vain for " + b.missing();
  return there == here ? "" : "other numbers";
}

}  // namespace

TEST_CASE("batch: what is short and what is long is heard in its order, and has its size") {
  detail::mpi_session::begin();
  for (const auto& sizes : {std::vector<std::size_t>{8}, {9000}, {8, 9000, 4000, 4001, 0, 7}}) {
    mpi_tags tags(1);
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    for (int k = 0; k < 3; ++k) CHECK(to_myself(tags, sizes, sizes, own) == "");
    MPI_Comm_free(&own);
  }
}

TEST_CASE("batch: another size is refused, of the same kind or the other, and nothing overtakes") {
  detail::mpi_session::begin();
  const std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> wrong{
      {{8}, {16}},           {{16}, {8}},   {{9000}, {8000}},
      {{9000}, {8}},         {{8}, {9000}}, {{9000, 8}, {8, 9000}},
      {{8, 9000}, {9000, 8}}};
  for (const auto& [said, heard] : wrong) {
    mpi_tags tags(1);
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_SELF, &own);  // left with what was never heard
    CHECK(to_myself(tags, said, heard, own) ==
          text("rank 0 expects ", heard[0], " bytes from rank 0 on lane 0, which sends ", said[0],
               ": the ranks disagree on what they exchange"));
  }
}

TEST_CASE("batch: a tag is of a place and a kind, and one that MPI promises") {
  mpi_tags tags(2);
  const auto tag = [&](int peer, std::size_t size, bool heard) {
    mpi_parcel p{peer, nullptr, size};
    tags.mark(p, heard);
    return p.tag;
  };
  CHECK(tag(1, 9000, true) == 0);
  CHECK(tag(1, 8, true) == 3);
  CHECK(tag(1, 9000, true) == 4);
  CHECK(tag(0, 8, true) == 1);
  CHECK(tag(1, 9000, false) == 0);
  int most = 0;
  for (int k = 0; k < 40000; ++k) most = std::max(most, tag(0, 8, false));
  CHECK(most == 32767);
}
