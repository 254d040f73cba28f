// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/device/local_rank.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using support::contains, support::error_message;

namespace {

/// Chooses its ordinal as device/cuda.cuh does, on a machine with `gpus` GPUs.
struct counted_gpu {
  static inline int gpus = 4;
  static inline std::atomic<int> queries = 0;  // of their number, by ranks as threads
  int ordinal;
  counted_gpu() : ordinal(default_ordinal([] { return ++queries, gpus; }, [] { return 3; })) {}
};

/// The ordinals of the ranks of a threads::launch, or its error.
std::string ordinals_of(int ranks, int gpus, bool share) {
  std::mutex mutex;
  std::multiset<int> used;
  counted_gpu::gpus = gpus;
  const std::string message = error_message([&] {
    threads::launch(ranks,
                    [&](threads) {
                      const std::scoped_lock lock(mutex);
                      used.insert(counted_gpu().ordinal);
                    },
                    {.deadline = std::chrono::seconds(30), .share_gpus = share});
  });
  if (!message.empty()) return message;
  std::string text;
  for (const int ordinal : used) text += std::to_string(ordinal);
  return text;
}

}  // namespace

TEST_CASE("local_rank: each rank of threads::launch has the GPU of its number") {
  CHECK(ordinals_of(4, 4, false) == "0123");
  CHECK(ordinals_of(3, 8, false) == "012");
  CHECK(ordinals_of(1, 1, false) == "0");
}

TEST_CASE("local_rank: ranks share GPUs on request only; the error names ranks, GPUs and option") {
  CHECK(ordinals_of(5, 2, true) == "00011");
  CHECK(ordinals_of(3, 1, true) == "000");
  const std::string message = ordinals_of(5, 2, false), of_one = ordinals_of(3, 1, false);
  CHECK(contains(message, "local ranks 0 to 4 of this machine have only GPUs 0 to 1"));
  CHECK(contains(message, "threads::options{.share_gpus = true}"));
  CHECK(contains(of_one, "local ranks 0 to 2 of this machine have only GPU 0:"));
}

TEST_CASE("local_rank: a thread's rank comes before its process's; outside it is the current GPU") {
  CHECK(counted_gpu().ordinal == 3);
  counted_gpu::gpus = 4;
  {
    const local_rank_scope process(local_rank{.rank = 1, .size = 4}, local_rank_scope::process);
    CHECK(counted_gpu().ordinal == 1);
    int elsewhere = -1;
    std::thread([&] { elsewhere = counted_gpu().ordinal; }).join();
    CHECK(elsewhere == 1);
    {
      const local_rank_scope chosen(local_rank{.ordinal = 2}, local_rank_scope::thread);
      const int before = counted_gpu::queries;
      CHECK(counted_gpu().ordinal == 2);
      CHECK(counted_gpu::queries == before + 1);
    }
    CHECK(counted_gpu().ordinal == 1);
  }
  CHECK(counted_gpu().ordinal == 3);
}

TEST_CASE("local_rank: a description says card, ordinal and how many ranks share it") {
  CHECK(describe_gpu(3, "NVIDIA H200", 8) == "GPU 3 (NVIDIA H200)");
  const local_rank_scope rank(local_rank{.rank = 2, .size = 5, .share_gpus = true},
                              local_rank_scope::thread);
  CHECK(describe_gpu(0, "NVIDIA H200", 2) ==
        "GPU 0 (NVIDIA H200), shared by 3 ranks of this machine");
  CHECK(describe_gpu(0, "card", 3) == "GPU 0 (card)");  // ranks 2 of 0, 1, 2, 3, 4 modulo 3
}

TEST_CASE(
    "local_rank: ranks as threads of ranks as processes are numbered on through the machine") {
  counted_gpu::gpus = 4;
  std::multiset<int> used;
  for (int process = 0; process < 2; ++process) {
    const local_rank_scope of_process(local_rank{.rank = process, .size = 2},
                                      local_rank_scope::process);
    std::mutex mutex;
    threads::launch(2, [&](threads) {
      const std::scoped_lock lock(mutex);
      used.insert(counted_gpu().ordinal);
    });
  }
  CHECK(used == std::multiset<int>{0, 1, 2, 3});
  counted_gpu::gpus = 2;
  const local_rank_scope of_process(local_rank{.rank = 1, .size = 2}, local_rank_scope::process);
  CHECK(contains(error_message([] { threads::launch(2, [](threads) { counted_gpu(); }); }),
                 "local ranks 0 to 3 of this machine have only GPUs 0 to 1"));
}

TEST_CASE("local_rank: threads of a rank that has chosen its GPU use it") {
  const local_rank_scope chosen(local_rank{.ordinal = 2}, local_rank_scope::thread);
  CHECK(ordinals_of(2, 4, false) == "22");
}

TEST_CASE("local_rank: the peers are the other GPUs of the process's ranks") {
  const auto peers = [](int process, int k, int threads, int gpus) {
    return local_rank::of_thread(local_rank{.rank = process, .size = 2}, k, threads, true, "")
        .peers(gpus);
  };
  using ordinals = std::vector<int>;
  CHECK(peers(0, 0, 2, 8) == ordinals{1});
  CHECK(peers(1, 1, 3, 8) == ordinals{3, 5});
  CHECK(peers(0, 1, 4, 2) == ordinals{0});
  CHECK(peers(1, 0, 1, 8).empty());
  CHECK(local_rank{.rank = 1, .size = 4}.peers(4).empty());  // a process of its own
}
