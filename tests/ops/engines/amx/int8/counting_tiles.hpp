// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tiles that only count what is done with them.
#pragma once

#include <cstddef>

#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace support {

struct tile_counts {
  std::size_t units = 0, products = 0, loads = 0, stores = 0;
};

class counting_tiles {
 public:
  static inline tile_counts counts;  // since it was reset

  explicit counting_tiles(const cordee::detail::ops::tile_shapes&) { ++counts.units; }
  counting_tiles(const counting_tiles&) = delete;
  counting_tiles& operator=(const counting_tiles&) = delete;

  template <int>
  void zero() {}
  template <int>
  void load(const void*, std::ptrdiff_t) {
    ++counts.loads;
  }
  template <int>
  void store(void*, std::ptrdiff_t) const {
    ++counts.stores;
  }
  template <int, int, int>
  void add_bf16() {
    ++counts.products;
  }
  template <int, int, int>
  void add_bytes() {
    ++counts.products;
  }
};
static_assert(cordee::detail::ops::TileUnit<counting_tiles>);

}  // namespace support
