// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>

#include <doctest/doctest.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/nccl/communicator.hpp>

using cordee::detail::comm::nccl_communicator, cordee::detail::comm::poll_until;
using namespace std::chrono_literals;

namespace {

void make(nccl_communicator& c) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  c.initialize(1, 0, id);
  CHECK(poll_until([&] { return c.state() == ncclSuccess; }, 30s, 1ms));
}

}  // namespace

TEST_CASE("nccl_communicator: abort returns while a graph that has captured a collective exists") {
  cudaStream_t s = nullptr;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  float x = 1;
  const int before = nccl_double::aborts;
  {
    nccl_communicator c;
    make(c);
    nccl_double::capturing = true;
    c.all_reduce(&x, 1, ncclFloat32, ncclSum, s);
    CHECK(poll_until([&] { return c.state() == ncclSuccess; }, 30s, 1ms));
    nccl_double::capturing = false;
    CHECK(nccl_double::graph.size() == 1);
    c.abort();
    CHECK_FALSE(c.exists());
    CHECK(nccl_double::aborts == before);  // it waits for the graph
    nccl_double::graph.clear();
  }
  CHECK(nccl_double::aborts == before + 1);
  cudaStreamDestroy(s);
}

TEST_CASE("nccl_communicator: without captured collectives abort is complete when it returns") {
  const int before = nccl_double::aborts;
  nccl_communicator c;
  make(c);
  c.abort();
  CHECK(nccl_double::aborts == before + 1);
}
