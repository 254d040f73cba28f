// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/context.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server, detail::comm::nccl_context,
    detail::comm::nccl_transfer;

namespace {

ncclUniqueId new_id() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  return id;
}

}  // namespace

TEST_CASE("nccl_context: a rank that does not start is an error at the deadline") {
  const bootstrap_server server(2, 0, "key", 10s);
  bootstrap_client control({0, 2},
                           bootstrap_client::join({"127.0.0.1"}, server.port(), {0, 2}, "key"));
  const bootstrap_client silent(
      {1, 2}, bootstrap_client::join({"127.0.0.1"}, server.port(), {1, 2}, "key"));
  const std::string message = support::error_message([&] {
    nccl_context(control, {0, 2}, 3, 0, 500ms, new_id());
  });
  CHECK(support::contains(message, "rank 0 waited 500 ms for every rank to start on context 3"));
  CHECK(control.first_failure.stalled());
}

TEST_CASE("nccl_context: earlier work of the stream does not count as waiting for a peer") {
  const bootstrap_server server(1, 0, "key", 10s);
  bootstrap_client control({0, 1},
                           bootstrap_client::join({"127.0.0.1"}, server.port(), {0, 1}, "key"));
  nccl_context context(control, {0, 1}, 0, 0, 1s, new_id());
  int sent = 7, received = 0;
  const cudaStream_t s = context.staging_stream();
  s->enqueue([] { std::this_thread::sleep_for(1500ms); });
  context.exchange(std::array{nccl_transfer{0, &received, sizeof received}},
                   std::array{nccl_transfer{0, &sent, sizeof sent}}, s);
  CHECK(received == 7);
  context.finish();
  CHECK_THROWS_AS(context.exchange({}, std::array{nccl_transfer{0, &sent, sizeof sent}}, s), error);
}
