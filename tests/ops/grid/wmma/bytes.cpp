// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/grid/wmma/bytes.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/byte_engines.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

static_assert(ByteEngine<wmma, emulated::stream>);

TEST_CASE(
    "wmma: bytes are convolved exactly, by every window, stride, padding, tail and zero point") {
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 3, 1, 1},
                                       {{17, 5, 4}, 40, 3, 2, 1},
                                       {{16, 4, 5}, 3, 1, 2, 0},
                                       {{3, 9, 8}, 4, 7, 2, 3},
                                       {{2, 4, 3}, 2, 2, 1, 2},
                                       {{40, 2, 3}, 72, 1, 1, 0}})
    for (const int zero : {0, 128, 255})
      check_bytes<wmma>(p, zero == 0 ? 5 : 1, zero,
                        emulated::stream(1 + static_cast<std::uint64_t>(zero)));
}

TEST_CASE("wmma: the largest sums of bytes do not saturate") {
  const convolution_problem p{{257, 1, 1}, 1, 1, 1, 0};
  const emulated::stream s;
  const std::vector<std::uint8_t> x(sample_size(p.in, wmma::block<float>(257)), 255);
  const std::vector<std::int8_t> w(257, 127);
  std::vector<std::int8_t> image(wmma::packed_bytes(p));
  wmma::pack_bytes(p, w.data(), image.data(), s);
  std::vector<std::int32_t> sums(16, 99);
  wmma::fprop_bytes(p, 1, x.data(), affine<float>{1, 1, 0, unsigned_bytes}, image.data(),
                    static_cast<const float*>(nullptr), sums.data(), s);
  CHECK(sums[0] == 257 * 255 * 127);
  CHECK(sums[1] == 0);
}
