// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs of ranks that are processes, emulated. Run by mpirun: every process runs every test.
#include <array>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/mpi.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

constexpr std::chrono::seconds deadline{30};

}  // namespace

TEST_CASE("mpi: GPU memory is staged through the host") {
  mpi::launch(
      [](mpi comm) {
        const int p = comm.size(), next = (comm.rank() + 1) % p, before = (comm.rank() + p - 1) % p;
        std::vector<std::byte> sent(1000), received(1000), to_self(10, std::byte{7});
        sent[999] = static_cast<std::byte>(comm.rank());
        const std::array out{send_op<emulated>{next, {sent.data(), sent.size()}},
                             send_op<emulated>{comm.rank(), {to_self.data(), to_self.size()}}};
        std::vector<std::byte> from_self(10);
        const std::array in{recv_op<emulated>{comm.rank(), {from_self.data(), from_self.size()}},
                            recv_op<emulated>{before, {received.data(), received.size()}}};
        comm.exchange(std::span<const send_op<emulated>>(out),
                      std::span<const recv_op<emulated>>(in), emulated::stream{});
        CHECK(received[999] == static_cast<std::byte>(before));
        CHECK(from_self == to_self);
      },
      {.deadline = deadline});
}

TEST_CASE("mpi: GPU memory is staged through host memory that is page-locked once") {
  struct pinning_gpu : emulated {
    struct stream : emulated::stream {
      stream() : emulated::stream(1) {}
      static int& pins() {
        static int count = 0;
        return count;
      }
      static void* pin(std::size_t size) { return ++pins(), std::malloc(size); }
      static void unpin(void* memory) noexcept { std::free(memory); }
    };
    static stream make_stream() { return {}; }
    void copy(void* out, const void* in, std::size_t n, stream s) const { s.copy(out, in, n); }
  };
  mpi::launch(
      [](mpi comm) {
        const int p = comm.size(), next = (comm.rank() + 1) % p, before = (comm.rank() + p - 1) % p;
        std::vector<std::byte> sent(10'000, static_cast<std::byte>(comm.rank())), received(10'000);
        for (const std::size_t n : {10'000u, 10u, 9'999u, 10'000u}) {
          const std::array out{send_op<pinning_gpu>{next, {sent.data(), n}}};
          const std::array in{recv_op<pinning_gpu>{before, {received.data(), n}}};
          comm.exchange(std::span<const send_op<pinning_gpu>>(out),
                        std::span<const recv_op<pinning_gpu>>(in), pinning_gpu::make_stream());
          CHECK(received[n - 1] == static_cast<std::byte>(before));
        }
        CHECK(pinning_gpu::stream::pins() == 1);
      },
      {.deadline = deadline});
}

TEST_CASE("mpi: each rank of a machine has another GPU, on every thread of its process") {
  mpi::launch(
      [](mpi comm) {
        int ordinal = -1;
        std::thread([&] {
          ordinal = detail::device::default_ordinal([] { return 8; }, [] { return -1; });
        }).join();
        CHECK(ordinal == comm.rank());
        const std::string message = error_message(
            [] { (void)detail::device::default_ordinal([] { return 1; }, [] { return -1; }); });
        CHECK(contains(message, "mpi::options{.share_gpus = true}") == (comm.size() > 1));
      },
      {.deadline = deadline});
  mpi::launch(
      [](mpi) { CHECK(detail::device::default_ordinal([] { return 1; }, [] { return -1; }) == 0); },
      {.deadline = deadline, .share_gpus = true});
}
