// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a torus of Y rows of X ranks, ring by ring (Mikami et al. 2018).
//
//   rings along the rows reduce-scatter X chunks;  rings along the columns make the mean of a
//   chunk, in Y parts;  rings along the rows all-gather the chunks
//
// 2(X-1) + 2(Y-1) messages a rank; 2n(p-1)/p numbers a rank as in a flat ring, of which only
// 2(n/X)(Y-1)/Y leave a row: let the ranks of a row share a machine. A prime number of ranks makes
// one row, a flat ring. (topologies::torus2d is the graph of that shape, for gossip.)
#pragma once

#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean over the rows and columns of a torus.
template <class Communicator>
struct torus_ring : exact_method<torus_ring<Communicator>, Communicator> {
  static constexpr bool can_shard = true;  ///< See reducer.hpp.

  /// Rows of ranks; 0: the largest divisor of the number of ranks that is at most its square root.
  /// Range: 0 or a divisor of the number of ranks, else usage_error.
  int rows;

  /// Sets `rows`, which is checked at its first use.
  explicit torus_ring(Communicator communicator, int row_count = 0)
      : exact_method<torus_ring, Communicator>{{communicator}}, rows(row_count) {}

  /// Scratch for a received chunk of a row, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const int x = columns(), row_chunks = x == 1 ? this->comm.size() : x;
    return n / static_cast<std::size_t>(row_chunks) * sizeof(Real) + sizeof(Real);
  }
  /// One for each rank.
  [[nodiscard]] int chunks(std::size_t) const { return this->comm.size(); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    const int x = columns();
    return concat("rings over ", this->comm.size() / x, " x ", x, " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank();
    const int width = columns(), height = p / width, x = r % width, y = r / width;
    const int west = x == 0 ? r + width - 1 : r - 1, east = x == width - 1 ? r + 1 - width : r + 1;
    const detail::comm::ring_position row{x, width, west, east};
    const detail::comm::ring_position column{y, height, (r + p - width) % p, (r + width) % p};
    const auto chunk = [=](int i) { return chunk_range{i * height, (i + 1) * height}; };
    const auto part = [=](int i) { return chunk_range{x * height + i, x * height + i + 1}; };
    row.reduce_scatter(w, chunk);
    column.reduce_scatter(w, part);
    w.average(part(y), p);
    column.all_gather(w, part);
    row.all_gather(w, chunk);
    w.flush();
  }

 private:
  [[nodiscard]] int columns() const {
    return this->comm.size() / detail::comm::rows_of(rows, this->comm.size());
  }
};

}  // namespace cordee::inline CORDEE_ABI
