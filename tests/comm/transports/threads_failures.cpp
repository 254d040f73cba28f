// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Failures of runs of threads; successful exchanges are in threads.cpp.
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/exchange.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

namespace {

/// A GPU whose copies fail, as those of CUDA do after an error of any kernel.
struct failing_gpu : support::emulated {
  struct stream : support::emulated::stream {
    stream() : support::emulated::stream(1) {}
    void copy(void*, const void*, std::size_t) const {
      throw cordee::error("cudaMemcpyAsync: an illegal memory access was encountered");
    }
  };
  [[nodiscard]] static stream make_stream() { return stream{}; }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
};
static_assert(Device<failing_gpu> && GpuStream<failing_gpu::stream>);

}  // namespace

TEST_CASE("threads: a copy between GPUs that fails ends both ranks with its error") {
  std::array<std::string, 2> ended;
  const auto start = std::chrono::steady_clock::now();
  const std::string message = error_message([&] {
    threads::launch(2,
                    [&](threads comm) {
                      const auto rank = static_cast<std::size_t>(comm.rank());
                      std::vector<std::byte> x(100);
                      const span_on<std::byte, failing_gpu> memory{x.data(), x.size()};
                      const std::array out{send_op<failing_gpu>{1, memory}};
                      const std::array in{recv_op<failing_gpu>{0, memory}};
                      ended[rank] = error_message([&] {
                        comm.exchange(std::span<const send_op<failing_gpu>>(out.data(), 1 - rank),
                                      std::span<const recv_op<failing_gpu>>(in.data(), rank),
                                      failing_gpu::make_stream());
                      });
                    },
                    {.deadline = 5s});
  });
  const std::string cause =
      "cannot receive 100 bytes from rank 0 on context 0: cudaMemcpyAsync: an illegal memory";
  CHECK(contains(message, ("rank 1: " + cause).c_str()));
  CHECK(contains(ended[0], ("rank 0 aborted: rank 1: " + cause).c_str()));
  CHECK(contains(ended[1], "cudaMemcpyAsync: an illegal memory access"));
  CHECK(std::chrono::steady_clock::now() - start < 5s);  // none has waited for the deadline
}

TEST_CASE(
    "threads: a message of another size is an error with both ranks, both sizes and the context") {
  const std::string message = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          std::vector<std::int32_t> three(3), four(4);
          if (comm.rank() == 0) exchange(comm, {send(1, three)}, {});
          if (comm.rank() == 1) exchange(comm, {}, {receive(0, four)});
        },
        long_deadline);
  });
  CHECK(contains(message, "rank 1 expects 16 bytes from rank 0 on context 0, which sends 12"));
}

TEST_CASE("threads: launch throws the first failure, and other ranks abort with it") {
  std::vector<std::string> aborted(5);
  const std::string message = error_message([&] {
    threads::launch(
        5,
        [&](threads comm) {
          std::vector<int> x(1);
          if (comm.rank() == 3) throw std::runtime_error("cause on rank 3");
          try {
            exchange(comm, {}, {receive(3, x)});
          } catch (const error& e) {
            aborted[static_cast<std::size_t>(comm.rank())] = e.what();
            throw;
          }
        },
        long_deadline);
  });
  CHECK(message == "rank 3: cause on rank 3");
  for (const std::size_t r : {0u, 1u, 2u, 4u})
    CHECK(aborted[r] == concat("rank ", r, " aborted: rank 3: cause on rank 3"));
}

TEST_CASE("threads: an exception that is not a std::exception ends the run") {
  const std::string message = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          if (comm.rank() == 1) throw 7;
        },
        long_deadline);
  });
  CHECK(contains(message, "rank 1: threw something"));
}

TEST_CASE("threads: waits of receivers and of senders end at the deadline") {
  for (const bool sends : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    stuck_rank stuck;
    const std::string message = error_message([&] {
      threads::launch(2,
                      [&](threads comm) {
                        std::vector<int> x(4);
                        if (comm.rank() == 1) return stuck.block();
                        stuck.run_peer([&] {
                          if (sends)
                            exchange(comm, {send(1, x)}, {});
                          else
                            exchange(comm, {}, {receive(1, x)});
                        });
                      },
                      {.deadline = 1000ms});
    });
    CHECK(contains(message,
                   sends ? "rank 0 waited 1000 ms for rank 1 to receive 16 bytes on context 0"
                         : "rank 0 waited 1000 ms for rank 1 to send 16 bytes on context 0"));
    CHECK(std::chrono::steady_clock::now() - start < 20s);
  }
}

TEST_CASE("threads: a sender to a rank that does not receive is stopped at the deadline") {
  stuck_rank stuck;
  const std::string message = error_message([&] {
    threads::launch(2,
                    [&](threads comm) {
                      std::vector<int> data(1), own(1);
                      if (comm.rank() == 1) return stuck.block();
                      stuck.run_peer([&] {
                        for (int k = 0; k < 1000; ++k)
                          exchange(comm, {send(1, data), send(0, own)}, {receive(0, own)});
                      });
                    },
                    {.deadline = 1000ms});
  });
  CHECK(contains(message, "rank 0 waited 1000 ms for rank 1 to receive 4 bytes on context 0"));
}

TEST_CASE("threads: the suspected rank is the end of the chain of waits") {
  stuck_rank stuck;
  const std::string message = error_message([&] {
    threads::launch(3,
                    [&](threads comm) {
                      std::vector<int> x(1);
                      if (comm.rank() == 2) return stuck.block();
                      // Rank 1 waits for rank 2, but from later on: rank 0 reaches its deadline
                      // first.
                      if (comm.rank() == 1) std::this_thread::sleep_for(500ms);
                      stuck.run_peer([&] { exchange(comm, {}, {receive(comm.rank() + 1, x)}); });
                    },
                    {.deadline = 3000ms});
  });
  const std::string first = message.substr(0, message.find('\n'));
  CHECK(contains(first, "waited 3000 ms for rank "));
  CHECK(contains(first, "for rank 2 to "));
  CHECK(contains(message, "\n  suspected: rank 2 (reported no wait)"));
}

TEST_CASE("threads: an error of a mean names every rank that has not contributed") {
  stuck_rank stuck;
  const std::string message = error_message([&] {
    threads::launch(4,
                    [&](threads comm) {
                      float x = 0;
                      if (comm.rank() > 1) return stuck.block();
                      stuck.run_peer([&] { comm.mean(span_on<float, cpu>{&x, 1}, cpu::stream{}); });
                    },
                    {.deadline = 2000ms});
  });
  CHECK(contains(message, "waited 2000 ms for rank 2, rank 3 to contribute 4 bytes on context 0"));
}

TEST_CASE("threads: a message that was never received is an error") {
  const std::string message = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          std::vector<int> data(3), own(1);
          if (comm.rank() == 0)
            exchange(comm.duplicate(2), {send(1, data), send(0, own)}, {receive(0, own)});
        },
        long_deadline);
  });
  CHECK(contains(message, "rank 0 sent 12 bytes to rank 1 on context 2"));
}

TEST_CASE("threads: a wait for a rank that has left fails at once") {
  const auto start = std::chrono::steady_clock::now();
  const std::string message = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          std::vector<int> x(1);
          if (comm.rank() != 2) exchange(comm, {send(2, x)}, {});
        },
        long_deadline);
  });
  CHECK(contains(message, "rank 2 has left the run"));
  CHECK(std::chrono::steady_clock::now() - start < 20s);
}

TEST_CASE("threads: abort wakes every rank with the cause") {
  const std::string message = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          std::vector<int> x(1);
          if (comm.rank() == 0) return comm.abort("canceled");
          exchange(comm, {}, {receive(0, x)});
        },
        long_deadline);
  });
  CHECK(message == "rank 0: canceled");
}

TEST_CASE("threads: no ranks, no such context and no such peer are usage errors") {
  CHECK_THROWS_AS(threads::launch(0, [](threads) {}), usage_error);
  CHECK(contains(error_message([] {
                   threads::launch(
                       1, [](threads l) { (void)l.duplicate(4); }, long_deadline);
                 }),
                 "no such context"));
  CHECK(contains(error_message([] {
                   threads::launch(
                       1,
                       [](threads l) {
                         std::vector<int> x(1);
                         exchange(l, {send(1, x)}, {});
                       },
                       long_deadline);
                 }),
                 "no such peer"));
}

TEST_CASE("threads: an error of probe_any names the expected ranks, and only them") {
  const std::string message = error_message([] {
    threads::launch(4,
                    [](threads comm) {
                      if (comm.rank() == 0)
                        return (void)comm.duplicate(request_context).probe_any(std::array{1, 3});
                      std::vector<int> x(1);
                      if (comm.rank() == 2) return;
                      exchange(comm, {}, {receive(0, x)});
                    },
                    {.deadline = 1s});
  });
  CHECK(contains(message, "rank 1 or rank 3 to send on context 2"));
}

TEST_CASE("threads: probe_any requires the request context and valid ranks") {
  on_ranks(2, [](threads comm) {
    CHECK_THROWS_AS((void)comm.probe_any({}), usage_error);
    CHECK_THROWS_AS((void)comm.duplicate(request_context).probe_any(std::array{2}), usage_error);
    return 0;
  });
}

TEST_CASE("threads: a deadline of 0 or less is refused, and the longest one waits") {
  for (const auto deadline : {0ms, -1ms}) {
    const auto launch = [&] { threads::launch(1, [](threads) {}, {.deadline = deadline}); };
    CHECK_THROWS_WITH_AS(launch(), doctest::Contains("threads::options{.deadline}"), usage_error);
  }
  const std::string message = error_message([] {
    threads::launch(2,
                    [](threads comm) {
                      if (comm.rank() == 0) std::this_thread::sleep_for(5ms);
                      std::vector<int> x(1);
                      if (comm.rank() == 0) exchange(comm, {send(1, x)}, {});
                      if (comm.rank() == 1) exchange(comm, {}, {receive(0, x)});
                    },
                    {.deadline = std::chrono::milliseconds::max()});
  });
  CHECK(message == "");
}
