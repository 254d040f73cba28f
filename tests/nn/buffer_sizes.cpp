// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>

#include <doctest/doctest.h>

#include <cordee/nn/buffer_sizes.hpp>

using namespace cordee::detail::nn;

TEST_CASE("buffer_sizes: each of several buffers may be rounded up to 256 bytes") {
  for (const std::size_t bytes : {0U, 1U, 255U, 256U, 257U, 1000U})
    for (const std::size_t count : {0U, 1U, 3U})
      for (const std::size_t samples : {0U, 1U, 2U, 7U}) {
        const std::size_t all = buffer_sizes{bytes, count}.bytes_of(samples);
        CHECK(all % 256 == 0);
        CHECK(all >= samples * bytes + count * 256);
        CHECK(all < samples * bytes + (count + 1) * 256);
      }
}

// An output that is computed where its block's output is; the others have memory of their own.
static_assert(block_output > recomputed_activation && temporary_activation > block_output);
static_assert(given_activation != own_activation && own_activation > given_activation);
