// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a ring: reduce-scatter, then all-gather (Patarasuk and Yuan 2009).
//
//   p chunks; step s of the first half: send chunk r-1-s to r+1, add what r-1 sends of chunk r-2-s
//   rank r then holds the sum of chunk r and divides it by p; the second half passes the means on
//
// 2(p-1) messages and 2n(p-1)/p numbers per rank, for n numbers and any p; if the transport adds
// while it receives, a long bucket is cut, which multiplies the messages (pipeline_depth). The
// order of a sum depends on the chunk, so results are bitwise equal on all ranks, but differ
// between bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Position `index` on a ring of `size` ranks, between `previous` and `next`. chunk(i) is the
/// chunk_range whose sum position i is to hold.
struct ring_position {
  int index, size, previous, next;

  template <class Wire, class Chunk>
  void reduce_scatter(Wire& w, const Chunk& chunk) const {
    for (int step = 0; step < size - 1; ++step)
      w.add(next, chunk(wrapped(index - 1 - step)), previous, chunk(wrapped(index - 2 - step)));
  }
  template <class Wire, class Chunk>
  void all_gather(Wire& w, const Chunk& chunk) const {
    for (int step = 0; step < size - 1; ++step)
      w.pass(next, chunk(wrapped(index - step)), previous, chunk(wrapped(index - 1 - step)));
  }

 private:
  [[nodiscard]] int wrapped(int i) const { return (i % size + size) % size; }
};

}  // namespace detail::comm

/// Exact mean over a ring of all ranks.
template <class Communicator>
struct ring : exact_method<ring<Communicator>, Communicator> {
  static constexpr bool can_pipeline = true;  ///< See exact_method.
  static constexpr bool can_shard = true;     ///< See reducer.hpp.

  /// Scratch for one received chunk, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n / static_cast<std::size_t>(this->comm.size()) * sizeof(Real) + sizeof(Real);
  }
  /// One for each rank.
  [[nodiscard]] int chunks(std::size_t) const { return this->comm.size(); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("ring over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank(), depth = w.count() / p;
    const detail::comm::ring_position position{r, p, (r + p - 1) % p, (r + 1) % p};
    for (int k = 0; k < depth; ++k) {  // pass k takes the k-th part of each rank's chunk
      const auto chunk = [=](int i) { return chunk_range{i * depth + k, i * depth + k + 1}; };
      position.reduce_scatter(w, chunk);
      w.average(chunk(r), p);
      position.all_gather(w, chunk);
    }
    w.flush();
  }
};
template <class Communicator>
ring(Communicator) -> ring<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
