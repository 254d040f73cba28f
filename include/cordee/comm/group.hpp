// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Some of a link's ranks as a link of their own: group{link, {5, 3, 1}}.
//
//   number k of the group is rank ranks[k] of the link; its lanes are the link's
//
// Messages between a pair are the link's, in its order: two groups that have a pair in common may
// not use one lane at once. What a transport does by itself for all of its ranks (`mean`) a group
// does not offer. An error that names the link's ranks says what their numbers are.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/errand.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/series.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
class group {
 public:
  static constexpr bool blocks_host = Link::blocks_host;

  /// All of them give the same ranks, in the same order.
  group(const Link& link, std::vector<int> ranks)
      : link_(link),
        rank_(number_in(ranks, link.rank(), link.size())),
        ranks_(std::make_shared<const std::vector<int>>(std::move(ranks))) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_->size()); }
  [[nodiscard]] group lane(int k) const {
    group other = *this;
    other.link_ = link_.lane(k);
    return other;
  }
  /// The link's rank of number k.
  [[nodiscard]] int rank_of(int k) const {
    detail::expects_peer("group", k, size());
    return (*ranks_)[static_cast<std::size_t>(k)];
  }
  /// And of the link's link, if that is a group as well: see rank_in_run.
  [[nodiscard]] int in_run(int k) const { return rank_in_run(link_, rank_of(k)); }

  template <Device D>
    requires TransportOn<Link, D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    renumbered(out, in, [&](auto o, auto i) { link_.exchange(o, i, s); });
  }
  template <class Real, Device D>
    requires AddsOn<Link, Real, D>
  void exchange_add(std::span<const to<D>> out, std::span<const from<D>> in,
                    typename D::stream s) const {
    renumbered(out, in, [&](auto o, auto i) { link_.template exchange_add<Real>(o, i, s); });
  }

  /// Ends the whole run, not the group's part of it.
  void abandon(const char* why) const
    requires Abandons<Link>
  {
    link_.abandon(why);
  }

 private:
  [[gnu::cold]] static int number_in(const std::vector<int>& ranks, int rank, int size) {
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (const int r : ranks) {
      expects(r >= 0 && r < size, "group: the link has no such rank");
      expects(!seen[static_cast<std::size_t>(r)], "group: a rank is named twice");
      seen[static_cast<std::size_t>(r)] = true;
    }
    expects(seen[static_cast<std::size_t>(rank)], "group: made by a rank that is not one of it");
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }

  template <class D, class Exchange>
  void renumbered(std::span<const to<D>> out, std::span<const from<D>> in,
                  const Exchange& exchange) const {
    series<to<D>> theirs;
    series<from<D>> ours;
    for (const auto& m : out) theirs.push_back({rank_of(m.peer), m.bytes});
    for (const auto& m : in) ours.push_back({rank_of(m.peer), m.bytes});
    const auto words = [&] { return numbers(out, in); };
    const errand here(words);
    exchange(std::as_const(theirs).span(), std::as_const(ours).span());
  }

  // For an error that knows the link's ranks alone.
  template <class D>
  [[gnu::cold]] std::string numbers(std::span<const to<D>> out, std::span<const from<D>> in) const {
    std::string all = text("in a group: its rank ", rank_, " is rank ", link_.rank());
    const auto add = [&](int k) { all += text(", its rank ", k, " is rank ", rank_of(k)); };
    for (const auto& m : out) add(m.peer);
    for (const auto& m : in) add(m.peer);
    return all + errand::outer();
  }

  Link link_;
  int rank_;
  std::shared_ptr<const std::vector<int>> ranks_;
};

/// The ranks that say the same colour, in their order; every rank of the link calls it.
template <class Link>
group<Link> group_of(const Link& link, int colour) {
  const double mine = colour;
  const std::vector<double> all = detail::everybodys(link, std::span(&mine, 1));
  std::vector<int> ranks;
  for (int r = 0; r < link.size(); ++r)
    if (all[static_cast<std::size_t>(r)] == mine) ranks.push_back(r);
  return {link, std::move(ranks)};
}

}  // namespace cordee::inline CORDEE_ABI
