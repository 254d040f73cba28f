// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/train/input/feed.hpp>

using namespace cordee;

TEST_CASE("feed: a loader is one, a data set is not") {
  static_assert(detail::train::Feed<loader<synthetic>>);
  static_assert(!detail::train::Feed<synthetic>);
}
