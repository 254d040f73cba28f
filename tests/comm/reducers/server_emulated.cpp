// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Workers whose memory is on a GPU: messages are staged through the host, where the server's
// weights are.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/server.hpp>
#include <cordee/ops/gpu/elementwise.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("asynchronous server: device memory is staged through the host") {
  for (const std::vector<float>& x : on_ranks(3, [](threads comm) {
         const emulated::stream s;
         const server reducer{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
         std::vector<float> x(5, static_cast<float>(7 * comm.rank() + 1)), received(5);
         const bucket_view<float, emulated, 1> m{
             nullptr, {x.data(), 5}, {span_on<float, emulated>{received.data(), 5}}, {}};
         reducer.initialize(m, s);
         for (int k = 0; k < 4; ++k) {
           scale(5, 2.0f, x.data(), s);  // each rank moves by its weights
           x[4] += static_cast<float>(comm.rank());
           reducer.mix(m, step_info{}, s);
         }
         CHECK(x == received);
         return x;
       }))
    CHECK(x == std::vector<float>{16, 16, 16, 16, 31});
}
