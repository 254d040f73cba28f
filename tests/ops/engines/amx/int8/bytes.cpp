// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <cordee/ops/engines/amx/int8/bytes.hpp>

#include "tests/ops/engines/amx/int8/tile_engine.hpp"
#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

constexpr int V = lanes<float>;

template <bool Permitted>
struct kernel : permitted_byte_correlation<V, tile_model> {
  explicit kernel(const convolution_problem& p)
      : permitted_byte_correlation<V, tile_model>(p, Permitted) {}
};

}  // namespace

TEST_CASE("bytes: the same sums with the permission to use tiles and without") {
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 7, 2, 3},
                                       convolution_problem{{40, 7, 7}, 35, 3, 1, 1}}) {
    check_bytes<byte_engine<kernel<true>>>(p, 2, 77);
    check_bytes<byte_engine<kernel<false>>>(p, 2, 77);
  }
  const convolution_problem p{{40, 7, 7}, 35, 3, 1, 1};
  CHECK(kernel<true>(p).packed_size() == byte_correlation_by_tiles<V, tile_model>(p).packed_size());
  CHECK(kernel<false>(p).packed_size() == byte_correlation<V, byte_dots>(p).packed_size());
}

TEST_CASE("bytes: a build without AMX uses engine direct's kernels") {
#if CORDEE_ABI_AMX
  static_assert(
      std::is_same_v<default_byte_correlation<16>, permitted_byte_correlation<16, amx_tiles>>);
#else
  static_assert(std::is_same_v<default_byte_correlation<16>, byte_correlation<16, byte_dots>>);
#endif
}
