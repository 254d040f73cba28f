// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Custom data batches for `fit`: a function from sample indices to the data.
//
// Ranks get the same samples as from a loader of images (data/loader.hpp): each epoch has one
// permutation of the samples, determined by (seed, epoch); an update takes a range of it, and rank
// r the r-th slice. Update k depends only on (seed, k): to resume is to seek.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/loader_options.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/data/staged_plan.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// The samples of one micro-batch of this rank.
struct sample_indices {
  std::span<const std::uint32_t> samples;  ///< Indices into the data, 0 .. samples - 1, in order.
  std::int64_t update = 0;                 ///< The update, counted from 0.
  std::int64_t first_sample = 0;           ///< Index of the first one in the update.
  std::uint64_t seed = 0;                  ///< loader_options::seed, for augmentation.
};

/// The batches of one rank. Uses only rank() and size() of the communicator, at construction.
template <class F, class D = cpu>
  requires std::invocable<F&, const sample_indices&>
class batch_source {
 public:
  /// What the function returns.
  using data_type = std::remove_cvref_t<std::invoke_result_t<F&, const sample_indices&>>;

  /// Plans the updates of `samples` samples; `make` returns the data of the samples it is given.
  /// next() calls it on the training thread, so .decode_threads and .prefetch must be 0. @throws
  /// usage_error for an option out of its range (loader_options.hpp); error for no samples, or
  /// fewer than the global batch with last_batch::drop.
  template <class Communicator>
  batch_source(std::size_t samples, const Communicator& comm, loader_options options, F make,
               D = {})
      : make_(std::move(make)), options_(options), rank_(comm.rank()), ranks_(comm.size()) {
    expects(options.decode_threads == 0 && options.prefetch == 0,
            "batch_source: the function runs on the thread that trains: leave .decode_threads and "
            ".prefetch at 0");
    plan_ = detail::data::plan_that_fits(samples, extent{}, options, ranks_, 1);
  }

  /// Number of samples.
  [[nodiscard]] std::int64_t samples() const { return plan_.first().samples; }
  /// Samples of the first update over all ranks.
  [[nodiscard]] std::int64_t global_batch() const { return plan_.first().global_batch; }
  /// Micro-batches of the first update on one rank.
  [[nodiscard]] int accumulate() const { return options_.accumulate; }
  [[nodiscard]] int ranks() const { return ranks_; }  ///< Ranks of the communicator.
  [[nodiscard]] std::uint64_t seed() const { return options_.seed; }  ///< `seed` of the options.
  /// Updates in so many epochs, rounded up. @throws usage_error as loader::steps does.
  [[nodiscard]] std::int64_t steps(double epochs) const { return plan_.steps(epochs); }
  /// Epochs of data seen before update `step`.
  [[nodiscard]] double epoch(std::int64_t step) const { return plan_.epoch(step); }
  /// The update that `next` will return.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Makes `step` the update that next() returns. @throws usage_error if it cannot be counted.
  void seek(std::int64_t step) { step_ = plan_.checked_step(step); }
  /// Returns this rank's micro-batches of one update, in order; valid until the next call but one,
  /// since `fit` fetches an update while the previous one trains. Throws what the function threw,
  /// and then remains at that step.
  std::span<const data_batch<data_type, D>> next() {
    const auto& stage = plan_.at(step_);
    const std::int64_t micro = std::int64_t{options_.accumulate} *
                               (options_.grow_micro_batch ? 1 : stage.factor),
                       global = stage.plan.global_batch;
    const auto begin_of = [&](std::int64_t slice) { return global * slice / (ranks_ * micro); };
    update& u = updates_[step_ % 2];
    u.data.clear();
    u.data.reserve(static_cast<std::size_t>(micro));
    u.micro.clear();
    for (std::int64_t k = rank_ * micro; k < (rank_ + 1) * micro; ++k) {
      indices_.clear();
      for (std::int64_t j = begin_of(k); j < begin_of(k + 1); ++j) {
        const auto p = plan_.sample(step_, j);
        indices_.push_back(order_.at(*this, options_.seed, p.epoch, p.index));
      }
      u.data.push_back(make_(sample_indices{indices_, step_, begin_of(k), options_.seed}));
      u.micro.push_back({batch<D>{.count = static_cast<int>(indices_.size()),
                                  .global_samples = global,
                                  .ranks = ranks_,
                                  .first_sample = begin_of(k)},
                         &u.data.back()});
    }
    ++step_;
    return u.micro;
  }
  /// Number of samples, as for a data set.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(samples()); }
  /// One line for logs: samples, global batch, the ends of epochs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::grouped(size()), " samples; global batch ", global_batch(), " on ",
                  ranks_, " ranks x ", options_.accumulate, " micro-batches; ",
                  plan_.describe(options_.grow_micro_batch),
                  detail::data::describe(options_.last_batch), "; seed ", options_.seed);
  }

 private:
  struct update {
    std::vector<data_type> data;
    std::vector<data_batch<data_type, D>> micro;
  };

  F make_;
  loader_options options_;
  int rank_, ranks_;
  detail::data::staged_plan plan_;
  detail::data::epoch_order order_;
  std::vector<std::uint32_t> indices_;
  update updates_[2];
  std::int64_t step_ = 0;
};
template <class C, class F>
batch_source(std::size_t, const C&, loader_options, F) -> batch_source<F, cpu>;

}  // namespace cordee::inline CORDEE_ABI
