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

}  // namespace

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
