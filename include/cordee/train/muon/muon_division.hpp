// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Muon's matrices, divided among the ranks by their cost: each rank makes its own ones' updates,
// and gets those of the others, so that all ranks step with the same bits.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/newton_schulz.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Every rank makes all updates.
struct muon_undivided {
  template <class O, class Communicator, class Segments>
  muon_undivided(const O&, const Communicator&, const Segments&, const Segments&) {}

  template <class O, class View, class Stream>
  void accept(const O& optimizer, const View& v, const step_info& info, Stream s) const {
    optimizer.accept(v, info, s);
  }
};

/// A segment as a matrix: its first side, and the product of the others.
struct matrix_sides {
  std::size_t rows = 0, columns = 0;

  constexpr explicit matrix_sides(const segment& s)
      : rows(static_cast<std::size_t>(s.shape[0])), columns(s.size / rows) {}
};

/// The owner of each segment that `is_matrix` holds for; -1 of the others. The most expensive
/// matrix first, always to the rank with the least work.
template <class IsMatrix>
[[gnu::cold]] std::vector<int> divide_matrices(std::span<const segment> table, int ranks,
                                               const IsMatrix& is_matrix) {
  std::vector<int> owners(table.size(), -1);
  std::vector<double> work(static_cast<std::size_t>(ranks));
  std::vector<std::pair<double, std::size_t>> left;  // cost, index
  for (std::size_t k = 0; k < table.size(); ++k)
    if (is_matrix(table[k])) {
      const matrix_sides sides(table[k]);
      left.emplace_back(-optim::newton_schulz<double>::cost(sides.rows, sides.columns), k);
    }
  std::sort(left.begin(), left.end());
  for (const auto& [cost, k] : left) {
    const auto least = std::min_element(work.begin(), work.end());
    owners[k] = static_cast<int>(least - work.begin());
    *least -= cost;
  }
  return owners;
}

/// What muon names as its preconditioner (train/step/preconditioner.hpp): it makes the whole step.
template <class Real, class Communicator>
class muon_division {
 public:
  template <class O>
  [[gnu::cold]] muon_division(const O& optimizer, const Communicator& all, std::span<const segment>,
                              std::span<const segment> trainables)
      : comm_(all.duplicate(comm::agreement_context)),
        owners_(divide_matrices(trainables, all.size(),
                                [&](const segment& s) { return optimizer.is_matrix(s); })) {}

  /// The optimizer's step, its matrices divided among the ranks. Collective.
  template <class O, class View, class Stream>
  void accept(const O& optimizer, const View& v, const step_info& info, Stream s) {
    optimizer.step(
        v, info, s, [this](std::size_t k) { return owners_[k] == comm_.rank(); },
        [&] { gather(v); });
  }

 private:
  // All updates, which are in the gradients' place: a message for each matrix and rank.
  template <class View>
  void gather([[maybe_unused]] const View& v) {
    if constexpr (!comm::single_rank<Communicator>) {
      if (comm_.size() == 1) return;
      core::pod_vector<send_op<cpu>> sends;
      core::pod_vector<recv_op<cpu>> receives;
      for (std::size_t k = 0; k < owners_.size(); ++k) {
        if (owners_[k] < 0) continue;
        const segment& one = v.segments[k];
        const span_on<Real, cpu> update{v.grads.data + (one.offset - v.segments.front().offset),
                                        one.size};
        if (owners_[k] != comm_.rank()) {
          receives.push_back({owners_[k], bytes(update)});
          continue;
        }
        for (int r = 0; r < comm_.size(); ++r)
          if (r != comm_.rank()) sends.push_back({r, bytes(update)});
      }
      comm_.exchange(std::as_const(sends).span(), std::as_const(receives).span(), cpu::stream{});
    }
  }

  Communicator comm_;
  std::vector<int> owners_;  // (trainable segments)
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
