// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Without the instruction for four products. Registers wider than this build's have no ABI.
template <int Bytes>
void check_plain_integers(const convolution_problem& p) {
  if constexpr (Bytes <= register_bytes) check_bytes<direct_with<Bytes, false>>(p, 2, 77);
}

// The engine of AVX2 alone, on any build whose registers are wide enough.
using narrow = direct_with < register_bytes<32 ? register_bytes : 32, false>;

}  // namespace

static_assert(steps_in_16_bits(0) == 64 && steps_in_16_bits(1) == 64 && steps_in_16_bits(7) == 9 &&
              steps_in_16_bits(64) == 1 && steps_in_16_bits(65) == 0);

TEST_CASE("bytes: so many steps fit 16 bits, and no more") {
  for (int m = 1; m <= 128; ++m) {
    CHECK(steps_in_16_bits(m) * 2 * 255 * m <= 32767);
    CHECK((steps_in_16_bits(m) + 1) * 2 * 255 * m > 32767);
  }
}

TEST_CASE("bytes: small weights have the sums of the definition") {
  for (const int largest : {1, 7, 10, 32})
    for (const convolution_problem& p : many_shapes) {
      check_bytes<narrow>(p, 2, 77, {cpu(1)}, largest);
      check_bytes<direct>(p, 1, 200, {cpu(1)}, largest);
    }
}

TEST_CASE("bytes: bytes of 255 and weights of the largest magnitudes that 16 bits hold, or above") {
  // As many window rows as fit 16 bits, and one more; sums of an odd number of them.
  for (const int largest : {1, 2, 7, 8, 10, 11, 16, 32, 33, 64, 65})
    for (const int zero_point : {0, 255}) {
      const int blocks = steps_in_16_bits(largest) / 2 + 1;
      check_extreme_bytes<narrow>({{8 * blocks, 3, 3}, 9, 1, 1, 0}, zero_point, largest);
      check_extreme_bytes<narrow>({{8 * blocks + 13, 3, 3}, 16, 1, 1, 0}, zero_point, largest);
      for (const int window : {3, 7})
        for (const int channels : {1, 3, 5, 40})
          check_extreme_bytes<narrow>({{channels, 7, 8}, 9, window, 1, window / 2}, zero_point,
                                      largest);
    }
}

TEST_CASE("bytes: registers of every size, without the instruction, have the same sums") {
  for (const convolution_problem& p : many_shapes) {
    check_plain_integers<64>(p);
    check_plain_integers<32>(p);
    check_plain_integers<16>(p);
  }
}

TEST_CASE("bytes: bits do not depend on the number of workers") {
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    check_bytes<direct>({{16, 6, 6}, 33, 3, 1, 1}, 11, 9, device_fixture{device});
  }
}
