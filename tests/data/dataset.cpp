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
struct non_const_read : support::numbered {
  int read(std::size_t, std::span<std::uint8_t>);  // not const: a second read could differ
};

}  // namespace

TEST_CASE("a data set has const members image, classes, size and read") {
  static_assert(Dataset<support::numbered>);
  static_assert(!Dataset<without_labels>);
  static_assert(!Dataset<non_const_read>);
  static_assert(!Dataset<int>);
  CHECK(support::numbered{}.image().size() == 2);
}
