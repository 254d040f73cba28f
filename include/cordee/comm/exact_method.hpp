// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An exact mean of a method that says who tells whom which blocks; here it becomes a reducer, with
// the numbers themselves on its wires (wire.hpp) or narrower ones (encoded_wire.hpp):
//
//   template <class Link>
//   struct mine : exact_method<mine<Link>, linked<Link>> {
//     int parts(std::size_t n) const;                             // blocks of n numbers
//     template <class Real> std::size_t scratch(std::size_t n) const;
//     template <class Wire> void run(Wire w) const;               // w.add, finish, pass, open
//     static constexpr bool in_rounds = true;                     // if it can; see below
//   };
#pragma once

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/wire.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a method holds, at least.
template <class Link>
struct linked {
  using link_type = Link;
  Link link;
};

/// `Held` is a base, not a member of the method, so that mine{link} needs no more braces.
template <class Self, class Held>
struct exact_method : Held {
  using typename Held::link_type;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;
  /// Whether `run` takes any multiple of parts() for w.count(), and goes round so many times, each
  /// number as it would in one.
  static constexpr bool in_rounds = false;

  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return encoded_scratch<P>(n, self().parts(n));
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    if (this->link.size() == 1) return;
    int parts = self().parts(m.what.size);
    if constexpr (Self::in_rounds && AddsOn<link_type, Real, D>) parts *= rounds(m.what.size);
    self().run(plain_wire<link_type, Real, D>{this->link, m.what, m.scratch, parts, s});
  }
  template <Precision P, class Real, Device D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment&,
              typename D::stream s) const {
    if (this->link.size() == 1) return;
    const int parts = self().parts(m.what.size);
    self().run(encoded_wire<P, link_type, Real, D>{this->link, m.which, m.what, m.scratch, lost,
                                                   parts, s});
  }

 private:
  /// Between ranks of one memory a message costs little, and what stays in the cores' caches from
  /// its first sum to its last copy crosses the memory once.
  static int rounds(std::size_t n) { return static_cast<int>(1 + n / (1u << 16)); }

  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace cordee::inline CORDEE_ABI
