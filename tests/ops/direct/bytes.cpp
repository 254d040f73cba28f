// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/convolution_direct.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace support;

namespace {
template <int Bytes>
using plain_integers = direct_with<Bytes, false>;
}

TEST_CASE("direct bytes: registers of every size, without the instruction, have the same sums") {
  for (const convolution_problem& p : many_shapes) {
    check_bytes<plain_integers<64>>(p, 2, 77);
    check_bytes<plain_integers<32>>(p, 2, 77);
    check_bytes<plain_integers<16>>(p, 2, 77);
  }
}

TEST_CASE("direct bytes: the number of workers does not change a bit") {
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    check_bytes<direct>({{16, 6, 6}, 33, 3, 1, 1}, 11, 9, bench_on{device});
  }
}
