// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/staging.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server, detail::comm::nccl_context,
    detail::comm::nccl_staging;

TEST_CASE("nccl_staging: what is read is copied to the GPU, and what is written back") {
  const bootstrap_server server(1, 0, "key", 10s);
  bootstrap_client control({0, 1},
                           bootstrap_client::join({"127.0.0.1"}, server.port(), {0, 1}, "key"));
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  nccl_context context(control, {0, 1}, 0, 0, 10s, id);
  std::vector<float> x{1, 2, 3, 4, 5};
  const auto bytes_of_x = bytes(span_on<float, cpu>{x.data(), x.size()});
  const auto add_ten = [&](void* data, cudaStream_t s) {
    auto* const on_gpu = static_cast<float*>(data);
    CHECK(on_gpu != x.data());
    s->enqueue([on_gpu] {
      for (std::size_t i = 0; i < 5; ++i) on_gpu[i] += 10;
    });
  };
  nccl_staging(context).run(bytes_of_x, {0, 5}, {0, 5}, sizeof(float), add_ten);
  CHECK(x == std::vector<float>{11, 12, 13, 14, 15});
  nccl_staging(context).run(bytes_of_x, {1, 3}, {1, 2}, sizeof(float), add_ten);
  CHECK(x == std::vector<float>{11, 22, 13, 14, 15});
  nccl_staging(context).run({}, {0, 0}, {0, 0}, sizeof(float), [](void*, cudaStream_t) {});
  context.finish();
}
