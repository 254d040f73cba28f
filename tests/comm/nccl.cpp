// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The transport over a double of NCCL and of CUDA's streams (tests/support/nccl_double).
#include <array>
#include <atomic>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/nccl.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/on_double.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<nccl, cpu> && TransportOn<nccl, on_double> && Abandons<nccl>);
static_assert(AddsOn<nccl, float, on_double> && NativeMeanOn<nccl, double, on_double>);

namespace {

using numbers = std::vector<float>;

to<on_double> send(int peer, const numbers& x) {
  return {peer, const_bytes(span_on<const float, on_double>{x.data(), x.size()})};
}
from<on_double> receive(int peer, numbers& x) {
  return {peer, bytes(span_on<float, on_double>{x.data(), x.size()})};
}
void exchange(const nccl& link, std::vector<to<on_double>> out, std::vector<from<on_double>> in,
              on_double::stream s) {
  link.exchange(std::span<const to<on_double>>(out), std::span<const from<on_double>>(in), s);
}
std::string complaint_of(int ranks, const auto& f, std::chrono::milliseconds deadline = 30s) {
  return complaint([&] { launch_nccl(ranks, f, deadline); });
}

}  // namespace

TEST_CASE("nccl keeps the laws of transports") {
  CHECK(transport_laws(launch_nccl, {.ranks = {1, 2, 3, 4}, .patience = 30s, .impatience = 2s}) ==
        "");
}

TEST_CASE("nccl: what lies on the GPU is sent, added and averaged in the order of its stream") {
  for (const int ranks : {2, 3}) {
    const std::string said = complaint_of(ranks, [](nccl link) {
      const int p = link.size(), next = (link.rank() + 1) % p, before = (link.rank() + p - 1) % p;
      const auto s = on_double{}.open();
      numbers mine(50'000, static_cast<float>(link.rank())), heard(50'000), sum(50'000, 1);
      exchange(link, {send(next, mine)}, {receive(before, heard)}, s);
      CHECK(heard == numbers(50'000, static_cast<float>(before)));
      const std::array out{send(next, mine)};
      const std::array in{receive(before, sum)};
      link.exchange_add<float>(std::span<const to<on_double>>(out),
                               std::span<const from<on_double>>(in), s);
      CHECK(sum == numbers(50'000, static_cast<float>(before + 1)));
      link.mean(span_on<float, on_double>{mine.data(), mine.size()}, s);
      CHECK(mine == numbers(50'000, static_cast<float>(p - 1) / 2));
      on_double::close(s);
    });
    CHECK(said == "");
  }
}

TEST_CASE(
    "nccl: a message of another size names both ranks, the lane and bytes, and nobody hangs") {
  for (const std::size_t said : {12u, 20u, 0u, 400'000u}) {
    CAPTURE(said);
    const std::string complaint_here = complaint_of(2, [&](nccl link) {
      numbers mine(said / 4), heard(4);
      const auto s = on_double{}.open();
      if (link.rank() == 0) exchange(link.lane(2), {send(1, mine)}, {}, s);
      if (link.rank() == 1) exchange(link.lane(2), {}, {receive(0, heard)}, s);
    });
    CHECK(contains(
        complaint_here,
        text("rank 1 expects 16 bytes from rank 0 on lane 2, which sends ", said).c_str()));
  }
}

TEST_CASE("nccl: a mean is divided once, though NCCL's average multiplies each part by 1/p") {
  CHECK(complaint_of(3, [](nccl link) {
          float x = std::array{1.0f, 2.0f, 4.0f}[static_cast<std::size_t>(link.rank())];
          link.mean(span_on<float, cpu>{&x, 1}, cpu::stream{});
          CHECK(x == 7.0f / 3);
        }) == "");
}

TEST_CASE("nccl: after a stall every rank tells what it was waiting for") {
  support::crevasse deep;
  const std::string said = complaint_of(
      3,
      [&](nccl link) {
        numbers x(2);
        const auto words = [&] { return text("bucket ", link.rank()); };
        const errand here(words);
        if (link.rank() == 2) deep.fall();
        const auto s = on_double{}.open();
        deep.beside([&] { exchange(link, {}, {receive(link.rank() == 0 ? 2 : 0, x)}, s); });
      },
      2s);
  CHECK(contains(said, "waited 2000 ms for rank "));
  CHECK(contains(said, "for rank 2 to send 8 bytes on lane 0"));
  for (const char* bucket : {"(bucket 0)", "(bucket 1)"}) CHECK(contains(said, bucket));
}

TEST_CASE(
    "nccl: a rank that waits itself is not to blame: the report ends with the one that does not") {
  support::crevasse deep;
  const std::string said = complaint_of(
      3,
      [&](nccl link) {
        numbers x(2);
        if (link.rank() == 2) return deep.fall();
        if (link.rank() == 1) std::this_thread::sleep_for(500ms);
        const auto s = on_double{}.open();
        deep.beside([&] { exchange(link, {}, {receive(link.rank() + 1, x)}, s); });
      },
      3s);
  CHECK(contains(said, "waited 3000 ms for rank "));
  CHECK(contains(said, "\n  look first at rank 2: no word of a wait from there"));
}

TEST_CASE(
    "nccl: what NCCL reports meanwhile is an error that names the call, the lane and its words") {
  const std::string said = complaint_of(2, [](nccl link) {
    numbers x(2);
    const auto s = on_double{}.open();
    if (link.rank() == 0) nccl_double::failing_with = ncclRemoteError;
    if (link.rank() == 0) nccl_double::failing_rank = 0;
    exchange(link, {}, {receive(1 - link.rank(), x)}, s);
  });
  nccl_double::failing_rank = -1;
  CHECK(contains(said, "rank 0: nccl: "));
  CHECK(contains(said, "on lane 0: remote process exited or there was a network error"));
  CHECK(contains(said, "the double's last words"));
}

TEST_CASE("nccl: the local rank picks the GPU, and so does the program") {
  std::atomic<int> wrong{0};
  CHECK(complaint_of(3, [&](nccl link) {
          int device = -1;
          cudaGetDevice(&device);
          wrong += device == link.rank() ? 0 : 1;
        }) == "");
  CHECK(wrong == 0);
  threads::launch(
      2,
      [&](threads between) {
        nccl::launch(
            [&](nccl link) {
              int device = -1;
              cudaGetDevice(&device);
              wrong += device == 5 - link.rank() ? 0 : 1;
            },
            by_link{between}, {.deadline = 30s, .device = 5 - between.rank()});
      },
      patient);
  CHECK(wrong == 0);
}

TEST_CASE("nccl: two ranks on one GPU are named, with the machine, before NCCL hangs") {
  char machine[256] = {};
  gethostname(machine, sizeof machine - 1);
  nccl_double::gpus = 1;
  const std::string said = complaint_of(2, [](nccl) {});
  nccl_double::gpus = 8;
  CHECK(contains(said, text("ranks 0 and 1 have the same GPU, 0000:00:00.0 of ", machine).c_str()));
}

TEST_CASE("nccl: more ranks than GPUs is said with both numbers") {
  nccl_double::gpus = 2;
  const std::string said = complaint_of(3, [](nccl) {});
  nccl_double::gpus = 8;
  CHECK(contains(said, "rank 2 is rank 2 of its machine, which has 2 GPUs"));
}

TEST_CASE("nccl: misuse is refused: no such lane, no such peer") {
  CHECK(complaint_of(1, [](nccl link) {
          numbers x(1);
          CHECK_THROWS_AS((void)link.lane(4), misuse);
          CHECK_THROWS_AS(exchange(link, {send(1, x)}, {}, {}), misuse);
          CHECK_THROWS_AS(exchange(link, {}, {receive(-1, x)}, {}), misuse);
        }) == "");
}
