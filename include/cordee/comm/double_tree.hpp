// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over two binary trees, half of the message each (Sanders, Speck and Traff 2009).
//
//   who has children in one tree is a leaf of the other (of an odd number of ranks, all but rank
//   0); each half goes up to its root and down again chunk by chunk, so that all edges work at once
//
// 2n bytes a rank at most and 2 ceil(log2 p) steps, and one more for each chunk but the first. The
// order of a sum depends on the half, so results are not the same across bucket sizes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A rank's place in the first tree: number 0 is the root, and has one child. A level is above all
/// those below it.
struct bough {
  int parent = nobody, level = 0;
  std::array<int, 2> child{nobody, nobody};

  static constexpr int levels(int size) {  // of the root
    return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
  }
  static constexpr int level_of(int number, int size) {
    return number == 0 ? levels(size) : std::countr_zero(static_cast<unsigned>(number));
  }
  static constexpr bough of(int number, int size) {
    bough b{.level = level_of(number, size)};
    const int bit = 1 << b.level;
    if (number == 0) {
      b.child[0] = bit / 2;
      return b;
    }
    const int left = number ^ bit, up = left | bit << 1;
    b.parent = up < size ? up : left;
    if (bit == 1) return b;
    b.child[0] = number - bit / 2;
    for (int edge = bit / 2; edge > 0 && b.child[1] == nobody; edge /= 2)
      if (number + edge < size) b.child[1] = number + edge;
    return b;
  }
};

template <class Link>
struct in_chunks {
  using link_type = Link;
  Link link;
  std::size_t chunk = 1u << 15;  // numbers, at most
};

}  // namespace detail

template <class Link>
struct double_tree : exact_method<double_tree<Link>, detail::in_chunks<Link>> {
  /// A child's chunk, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n / static_cast<std::size_t>(2 * chunks(n)) + 1) * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t n) const { return 2 * chunks(n); }

  [[nodiscard]] std::string describe() const {
    return text("two trees over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank(), count = w.count() / 2;
    // The other tree is the mirror image, or where that would leave ranks inside both, shifted.
    const auto other = [p](int k) { return p % 2 == 0 ? p - 1 - k : (k + 1) % p; };
    const int number = p % 2 == 0 ? p - 1 - r : (r + p - 1) % p;
    const side one(r, p, 0, count, [](int k) { return k; }), two(number, p, count, count, other);
    for (int beat = 0; beat < count + 2 * one.top - 1; ++beat) {
      one.climb(w, beat, p);
      two.climb(w, beat, p);
      one.descend(w, beat);
      two.descend(w, beat);
    }
    w.open();
  }

 private:
  // Of each half.
  [[nodiscard]] int chunks(std::size_t n) const {
    expects(this->chunk > 0, "double_tree: a chunk has at least one number");
    return static_cast<int>(std::max<std::size_t>(1, (n / 2 + this->chunk - 1) / this->chunk));
  }

  /// This rank in one of the trees, where chunks climb a level in each beat of time. Since all that
  /// a beat needs was there a beat before, within a beat every rank may go through the edges in
  /// one and the same order, and whoever waits for a peer waits for no cycle.
  struct side {
    detail::bough at;
    std::array<int, 2> level{};  // of the children
    int first, count, top;       // blocks; the root's level

    template <class Name>  // the rank of a tree's number
    side(int number, int size, int first_block, int blocks_of_mine, const Name& rank_of)
        : at(detail::bough::of(number, size)),
          first(first_block),
          count(blocks_of_mine),
          top(detail::bough::levels(size)) {
      for (std::size_t k = 0; k < 2; ++k) {
        if (at.child[k] == nobody) continue;
        level[k] = detail::bough::level_of(at.child[k], size);
        at.child[k] = rank_of(at.child[k]);
      }
      if (at.parent != nobody) at.parent = rank_of(at.parent);
    }

    [[nodiscard]] blocks block(int c) const { return {first + c, first + c + 1}; }
    [[nodiscard]] int there(int c, int peer) const { return c >= 0 && c < count ? peer : nobody; }

    template <class Wire>
    void climb(Wire& w, int beat, int ranks) const {
      const int mine = beat - at.level, left = beat - level[0], right = beat - level[1];
      if (there(left, at.child[0]) != nobody) w.add(nobody, block(0), at.child[0], block(left));
      const int up = there(mine, at.parent), from = there(right, at.child[1]);
      if (up != nobody || from != nobody)
        w.add(up, block(up == nobody ? 0 : mine), from, block(from == nobody ? 0 : right));
      if (at.parent == nobody && there(mine, 0) == 0) w.finish(block(mine), ranks);
    }
    template <class Wire>
    void descend(Wire& w, int beat) const {
      const int since = beat - (top - 1) - top;  // the chunk that arrives at level 0
      const int mine = since + at.level, left = since + level[0], right = since + level[1];
      const int from = there(mine, at.parent), down = there(left, at.child[0]);
      if (from != nobody || down != nobody)
        w.pass(down, block(down == nobody ? 0 : left), from, block(from == nobody ? 0 : mine));
      if (there(right, at.child[1]) != nobody) w.pass(at.child[1], block(right), nobody, block(0));
    }
  };
};
template <class Link>
double_tree(Link) -> double_tree<Link>;
template <class Link>
double_tree(Link, std::size_t) -> double_tree<Link>;

}  // namespace cordee::inline CORDEE_ABI
