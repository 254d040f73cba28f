// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer that sees every weight of a table without shapes as a matrix: for tests of muon on
// the tables of all optimizers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <cordee/core/segment.hpp>
#include <cordee/optim/optimizer.hpp>

namespace support {

using namespace cordee;

/// As many rows as divide the numbers, up to ten.
inline std::vector<segment> with_shapes(std::span<const segment> table) {
  std::vector<segment> shaped(table.begin(), table.end());
  for (segment& s : shaped) {
    int rows = 10;
    while (s.size % static_cast<std::size_t>(rows) != 0) --rows;
    const int columns = static_cast<int>(s.size) / rows;
    if (s.kind == kind::weight && s.size > 0) s.shape = {rows, columns, 0, 0};
  }
  return shaped;
}

template <class O>
struct shaped {
  static constexpr agreement needs = O::needs;
  static constexpr int slots = O::slots;
  static constexpr bool whole_tensors = true;  // the shapes are those of whole tensors

  O inner{};

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const std::vector<segment> table = with_shapes(v.segments);
    optimizer_view<Real, D, slots> own = v;
    own.segments = table;
    inner.accept(own, info, s);
  }
  void check() const { inner.check(); }
  void check_segments(std::span<const segment> table) const {
    inner.check_segments(with_shapes(table));
  }
  [[nodiscard]] std::string describe() const { return inner.describe(); }
};
template <class O>
shaped(O) -> shaped<O>;

}  // namespace support
