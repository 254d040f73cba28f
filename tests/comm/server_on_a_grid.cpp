// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Workers whose memory is on a GPU: it is staged, and the server keeps its own on the host.
#include <doctest/doctest.h>

#include <cordee/comm/server.hpp>
#include <cordee/ops/grid/elementwise.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("an asynchronous server moves what lies on a device, by way of the host") {
  for (const std::vector<float>& x : on_ranks(3, [](threads link) {
         const emulated::stream s;
         const server at{link, asynchronous{.softsync = 1, .bound = 0}};
         std::vector<float> x(5, static_cast<float>(7 * link.rank() + 1)), told(5);
         const message<float, emulated, 1> m{
             nullptr, {x.data(), 5}, {span_on<float, emulated>{told.data(), 5}}, {}};
         at.begin(m, s);
         for (int k = 0; k < 4; ++k) {
           scale(5, 2.0f, x.data(), s);  // everybody moves by what everybody has
           x[4] += static_cast<float>(link.rank());
           at.mix(m, moment{}, s);
         }
         CHECK(x == told);
         return x;
       }))
    CHECK(x == std::vector<float>{16, 16, 16, 16, 31});
}
