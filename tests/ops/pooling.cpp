// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/pooling.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

static_assert(max_pool_problem{{64, 112, 112}}.out() == extent{64, 56, 56});
static_assert(max_pool_problem{{64, 7, 8}}.out() == extent{64, 4, 4});
static_assert(max_pool_problem{{4, 5, 5}, 2, 2, 0}.out() == extent{4, 2, 2});

TEST_CASE("max_pool_problem: taps are those inside the image") {
  const max_pool_problem p{{1, 6, 6}, 3, 2, 1};
  CHECK((p.taps(0, 6).first == 1 && p.taps(0, 6).last == 3));
  CHECK((p.taps(1, 6).first == 0 && p.taps(1, 6).last == 3));
  CHECK((p.taps(3, 6).first == 0 && p.taps(3, 6).last == 1));
}

TEST_CASE("max_pool_problem: advance gives the windows that cover each pixel of a side") {
  for (const max_pool_problem& p : {max_pool_problem{{1, 9, 9}, 3, 2, 1},
                                    {{1, 9, 9}, 2, 2, 0},
                                    {{1, 9, 9}, 3, 1, 1},
                                    {{1, 9, 9}, 2, 3, 1}}) {
    const int side = p.in.height, count = p.out().height;
    max_pool_problem::range covering{0, 0};
    for (int h = 0; h < side; ++h) {
      p.advance(covering, h, count);
      for (int i = 0; i < count; ++i) {
        const int begin = i * p.stride - p.padding;
        CHECK((covering.first <= i && i < covering.last) == (begin <= h && h < begin + p.window));
      }
    }
  }
}

TEST_CASE("subsample_problem: half of the added channels precede those of the input") {
  constexpr subsample_problem p{{16, 8, 8}, {32, 4, 4}};
  CHECK(p.source(7) == -1);
  CHECK(p.source(8) == 0);
  CHECK(p.source(23) == 15);
  CHECK(p.source(24) == 16);
}
