// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/data/dataset.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;

namespace {

struct without_labels {
  extent image() const { return {}; }
  int classes() const { return 1; }
  std::size_t size() const { return 0; }
  void read(std::size_t, std::span<std::uint8_t>) const;
};
struct reads_only_once : support::numbered {
  int read(std::size_t, std::span<std::uint8_t>);  // not const: the second time may differ
};

}  // namespace

TEST_CASE(
    "a data set has an image, classes, a size and examples by number, and is not changed by it") {
  static_assert(Dataset<support::numbered>);
  static_assert(!Dataset<without_labels>);
  static_assert(!Dataset<reads_only_once>);
  static_assert(!Dataset<int>);
  CHECK(support::numbered{}.image().size() == 2);
}
