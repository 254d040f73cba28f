// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator of some ranks of a parent: subgroup{comm, {5, 3, 1}}.
//
//   rank k of the subgroup is rank ranks[k] of the parent; its contexts are the parent's
//
// Messages between a pair are the parent's, in its order, so two subgroups with a pair in common
// must not use one context at once. The parent's native mean covers all of its ranks, so a subgroup
// has none. An error naming the parent's ranks also gives their numbers in the subgroup.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI {

/// The communicator of some ranks of a parent.
template <class Communicator>
class subgroup {
 public:
  /// As the parent's.
  static constexpr bool blocks_host = Communicator::blocks_host;
  /// As the parent's.
  static constexpr std::size_t bucket_bytes = detail::comm::bucket_bytes_of<Communicator>();
  /// As the parent's.
  static constexpr bool concurrent_contexts = detail::comm::has_concurrent_contexts<Communicator>();

  /// All members pass the same ranks in the same order; other ranks construct none.
  /// @throws usage_error for a rank outside the parent, a duplicate, or a list without the caller.
  subgroup(const Communicator& comm, const std::vector<int>& ranks)
      : parent_(comm),
        rank_(rank_in_subgroup(ranks, comm.rank(), comm.size())),
        ranks_(detail::core::counted_ptr<const std::vector<int>>::make(ranks)) {}

  /// This rank's index in the list.
  [[nodiscard]] int rank() const { return rank_; }
  /// The length of the list.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_->size()); }
  /// The same ranks on the parent's context k.
  [[nodiscard]] subgroup duplicate(int k) const {
    subgroup other = *this;
    other.parent_ = parent_.duplicate(k);
    return other;
  }
  /// Rank k's rank in the parent.
  [[nodiscard]] int parent_rank(int k) const {
    detail::comm::expects_peer("subgroup", k, size());
    return (*ranks_)[static_cast<std::size_t>(k)];
  }
  /// Rank k's rank in the run, since the parent may itself be a subgroup.
  [[nodiscard]] int world_rank(int k) const {
    return cordee::detail::comm::world_rank(parent_, parent_rank(k));
  }

  /// The parent's exchange, with peers numbered in the subgroup.
  /// @throws usage_error for a peer outside of it.
  template <Device D>
    requires TransportOn<Communicator, D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    with_parent_ranks(out, in, [&](auto o, auto i) { parent_.exchange(o, i, s); });
  }
  /// The parent's exchange_add, with peers numbered in the subgroup.
  template <class Real, Device D>
    requires detail::comm::FusedAddOn<Communicator, Real, D>
  void exchange_add(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                    typename D::stream s) const {
    with_parent_ranks(out, in,
                      [&](auto o, auto i) { parent_.template exchange_add<Real>(o, i, s); });
  }

  /// Ends the whole run, not only the subgroup.
  void abort(const char* why) const
    requires detail::comm::Abortable<Communicator>
  {
    parent_.abort(why);
  }

 private:
  [[gnu::cold]] static int rank_in_subgroup(const std::vector<int>& ranks, int rank, int size) {
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (const int r : ranks) {
      expects(r >= 0 && r < size, "subgroup: the parent communicator has no such rank");
      expects(!seen[static_cast<std::size_t>(r)], "subgroup: a rank is listed twice");
      seen[static_cast<std::size_t>(r)] = true;
    }
    expects(seen[static_cast<std::size_t>(rank)],
            "subgroup: constructed on a rank that is not a member");
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }

  template <class D, class Exchange>
  void with_parent_ranks(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                         const Exchange& exchange) const {
    detail::core::pod_vector<send_op<D>> sends;
    detail::core::pod_vector<recv_op<D>> receives;
    for (const auto& m : out) sends.push_back({parent_rank(m.peer), m.bytes});
    for (const auto& m : in) receives.push_back({parent_rank(m.peer), m.bytes});
    const auto describe = [&] { return describe_ranks(out, in); };
    const detail::comm::error_context context(describe);
    exchange(std::as_const(sends).span(), std::as_const(receives).span());
  }

  template <class D>
  [[gnu::cold]] std::string describe_ranks(std::span<const send_op<D>> out,
                                           std::span<const recv_op<D>> in) const {
    std::string text = concat("in a subgroup: its rank ", rank_, " is rank ", parent_.rank());
    const auto add = [&](int k) { text += concat(", its rank ", k, " is rank ", parent_rank(k)); };
    for (const auto& m : out) add(m.peer);
    for (const auto& m : in) add(m.peer);
    return text + detail::comm::error_context::outer_suffix();
  }

  Communicator parent_;
  int rank_;
  detail::core::counted_ptr<const std::vector<int>> ranks_;
};

namespace detail::comm {

/// The ranks with the same color, in their order (MPI_Comm_split). Collective: every rank of the
/// communicator calls it.
template <class Communicator>
subgroup<Communicator> subgroup_of(const Communicator& comm, int color) {
  const double own_color = color;
  const std::vector<double> colors = gather_host(comm, std::span(&own_color, 1));
  std::vector<int> ranks;
  for (int r = 0; r < comm.size(); ++r)
    if (colors[static_cast<std::size_t>(r)] == own_color) ranks.push_back(r);
  return {comm, std::move(ranks)};
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
