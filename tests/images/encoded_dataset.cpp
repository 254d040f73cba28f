// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/images/encoded_dataset.hpp>

using namespace cordee;

namespace {

struct plain {
  int classes() const { return 2; }
  std::size_t size() const { return 50; }
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    bytes.assign(3, static_cast<std::uint8_t>(i));
    return static_cast<int>(i % 2);
  }
  std::string name(std::size_t i) const { return concat("image ", i); }
};

struct ordered : plain {
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(epoch)};
  }
};

struct without_names : plain {
  int name(std::size_t) const { return 0; }
};

}  // namespace

static_assert(EncodedDataset<plain> && EncodedDataset<ordered> && !EncodedDataset<without_names>);

TEST_CASE("encoded data set: its own order, or the permutation of other data sets") {
  CHECK(detail::data::order_of(ordered{}, 5, 7) == std::vector<std::uint32_t>{5, 7});
  CHECK(detail::data::order_of(plain{}, 5, 7) == detail::data::shuffled_indices(5, 7, 50));
}
