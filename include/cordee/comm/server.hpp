// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A parameter server: rank 0 keeps the numbers, and trains as well.
//
//   synchronous:    x <- (x_0 + x_1 + ... + x_{p-1}) / p, added and divided on rank 0
//   asynchronous:   push   d = x - y            how far this rank has moved since it was last told
//   y
//                   server w <- w + mean of c pushes d / s,    v <- v + 1
//                   pull   x <- y <- w                         s = 1, or max(1, v - v_w)
//
// The synchronous one is an exact mean (2(p-1) messages of n numbers, all of them rank 0's: a star,
// of use where ranks are few). The asynchronous one holds nobody up for another (bound = unlimited)
// and is loose: the rule steps alone, local{sgd{}, 1}, and what moved is pushed. p ranks that push
// by themselves move p times as far as their mean; n-softsync (Zhang et al. 2015) averages
// floor(p / n) pushes. Serving needs a transport that hears any source: threads, mpi.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/server/service.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

struct synchronous {};

template <class Link, class How = synchronous>
struct server;
template <class Link>
server(Link) -> server<Link>;
template <class Link, class How>
server(Link, How) -> server<Link, How>;

template <class Link>
struct server<Link, synchronous> {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  synchronous how{};

  /// A worker's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return encoded_scratch<P>(n, 1);
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    run(plain_wire<Link, Real, D>{link, m.what, m.scratch, 1, s});
  }
  template <Precision P, class Real, Device D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment&,
              typename D::stream s) const {
    run(encoded_wire<P, Link, Real, D>{link, m.which, m.what, m.scratch, lost, 1, s});
  }

  [[nodiscard]] std::string describe() const {
    return text("synchronous server on rank 0 of ", link.size(), ": exact mean");
  }

 private:
  // In the order of ranks, whoever comes first: the same bits in every run.
  template <class Wire>
  void run(Wire w) const {
    const int p = link.size();
    if (p == 1) return;
    constexpr blocks all{0, 1};
    if (link.rank() == 0) {
      for (int peer = 1; peer < p; ++peer) w.add(nobody, all, peer, all);
      w.finish(all, p);
      for (int peer = 1; peer < p; ++peer) w.pass(peer, all, nobody, all);
    } else {
      w.add(0, all, nobody, all);
      w.pass(nobody, all, 0, all);
    }
    w.open();
  }
};

/// Its copies are one server: rank 0 serves on a thread of its own from `begin` until the last copy
/// has gone on every rank. Lanes 2 and 3 are its own meanwhile.
template <class Link>
struct server<Link, asynchronous> {
  static_assert(AnySource<Link>,
                "an asynchronous server hears whoever comes first, which this transport cannot: "
                "use threads or mpi, or server{link, synchronous{}}");
  using link_type = Link;
  static constexpr agreement offers = agreement::loose;
  static constexpr bool lossless = true;
  static constexpr bool whole = true;  // a push has one version
  static constexpr int slots = 1;      // what this rank was last told

  server(Link l, asynchronous h)
      : link(l), how(h), here_(std::make_shared<detail::presence<Link>>(l, h)) {}

  Link link;
  asynchronous how;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }

  /// Everybody leaves with rank 0's numbers, which the server has then too. Collective.
  template <class Real, Device D>
  void begin(message<Real, D, 1> m, typename D::stream s) const {
    converse(detail::request::greeting, m, s);
  }
  template <class Real, Device D>
  void mix(message<Real, D, 1> m, const moment&, typename D::stream s) const {
    using cordee::add, cordee::scale;  // and the device's
    Real* const told = m.memory[0].data;
    scale(m.what.size, Real{-1}, told, s);
    add(m.what.size, static_cast<const Real*>(told), m.what.data, s);
    converse(detail::request::push, m, s);
  }

  [[nodiscard]] std::vector<int> hears(const moment&) const { return {0}; }

  /// How many pushes were k versions old when they came, by k; on rank 0.
  [[nodiscard]] std::vector<std::int64_t> staleness() const { return here_->staleness(); }

  [[nodiscard]] std::string describe() const {
    const int batch = detail::pace(link.size(), how).batch();
    return text("asynchronous server on rank 0 of ", link.size(), ": an update ",
                batch == 1 ? std::string("each push") : text("every ", batch, " pushes"),
                how.staleness_aware ? " divided by its staleness" : "",
                how.bound == asynchronous::unlimited
                    ? std::string()
                    : text(", nobody more than ", how.bound, " steps ahead of the slowest"));
  }

 private:
  template <class Real, Device D>
  void converse(detail::request::kind what, message<Real, D, 1> m,
                [[maybe_unused]] typename D::stream s) const {
    if constexpr (D::host_memory) {
      here_->converse(what, std::span<Real>(m.what));
      std::copy(m.what.begin(), m.what.end(), m.memory[0].begin());
    } else {
      std::vector<Real> room(m.what.size);
      const std::size_t size = room.size() * sizeof(Real);
      s.copy(room.data(), m.what.data, size);
      s.finish();
      here_->converse(what, std::span<Real>(room));
      s.copy(m.what.data, room.data(), size);
      s.copy(m.memory[0].data, room.data(), size);
      s.finish();
    }
  }

  std::shared_ptr<detail::presence<Link>> here_;
};

}  // namespace cordee::inline CORDEE_ABI
