// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Alternatives to moving averages for batch norm's running statistics.
//
// recalibrate: the statistics of a sample of the training set under the weights being evaluated (Wu
// and Johnson, 2021), which a moving average follows with delay, and a mean of differing weights
// not at all. With batches k of n_k samples, whose statistics are m_k and v_k,
//
//   N = sum(n_k),   mean = sum(n_k m_k) / N,   variance = sum(n_k (v_k + (m_k - mean)^2)) / N
//
// pool_statistics: the same formula over the ranks' running statistics, with weight one each.
// Without it, evaluation uses the mean of the ranks' variances (Akiba et al., 2017).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/input/upload.hpp>
#include <cordee/train/measure/evaluate.hpp>
#include <cordee/train/step/run_state.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Moments of batches, merged (Chan et al., 1979).
class pooled_statistics {
 public:
  [[gnu::cold]] explicit pooled_statistics(std::span<const segment> table) {
    for (std::size_t k = core::count_trainable(table); k + 1 < table.size(); ++k)
      if (table[k].name.ends_with("running_mean"))
        for (std::size_t c = 0; c < table[k].size; ++c)
          channels_.push_back({table[k].offset + c, table[k + 1].offset + c, 0, 0});
  }
  /// Adds the running statistics in `plane`, as those of a batch of n samples.
  template <class Plane>
  [[gnu::cold]] void add(const Plane& plane, double n) {
    if (n == 0) return;
    const double share = n / (weight_ + n);
    for (channel& c : channels_) {
      const double difference = static_cast<double>(plane[c.mean_at]) - c.mean;
      c.squares +=
          n * static_cast<double>(plane[c.variance_at]) + weight_ * share * difference * difference;
      c.mean += share * difference;
    }
    weight_ += n;
  }
  /// Writes the statistics over all ranks. Collective.
  template <class Communicator, class Plane>
  [[gnu::cold]] void write(const Communicator& comm, const Plane& plane) {
    std::vector<double> means{weight_}, squares;  // (1 + channels), (channels)
    for (const channel& c : channels_) means.push_back(weight_ * c.mean);
    allreduce_host(comm, std::span(means), reduce_op::sum);
    const double total = means[0];
    expects(total > 0, "recalibrate: the updates have no samples");
    for (std::size_t k = 0; k < channels_.size(); ++k) {
      const double difference = channels_[k].mean - means[k + 1] / total;
      squares.push_back(channels_[k].squares + weight_ * difference * difference);
    }
    allreduce_host(comm, std::span(squares), reduce_op::sum);
    using real = std::remove_cvref_t<decltype(plane[0])>;
    for (std::size_t k = 0; k < channels_.size(); ++k) {
      plane[channels_[k].mean_at] = static_cast<real>(means[k + 1] / total);
      plane[channels_[k].variance_at] = static_cast<real>(squares[k] / total);
    }
  }

 private:
  struct channel {
    std::size_t mean_at, variance_at;  // in a plane
    double mean, squares;              // squares: the variance times the weight
  };
  std::vector<channel> channels_;
  double weight_ = 0;
};

/// Sets back how a network takes statistics at the end of a scope.
struct moving_average_guard {
  bool& moving_average;
  bool before = moving_average;
  ~moving_average_guard() { moving_average = before; }
};

/// Throws usage_error for no updates; error for a feed of another shape, normalization or classes
/// than training had. Collective.
template <class Run, class F>
[[gnu::cold]] void expect_recalibrates(Run& run, F& feed, int updates) {
  expects(updates > 0, "recalibrate: statistics need at least one update");
  expect_shapes_match<typename Run::model_type>(feed, "loader of recalibrate");
  expect_data_of(run, feed.normalization(), class_name_list(feed), "recalibrate: the loader");
}

}  // namespace detail::train

/// Replaces every rank's running statistics by their exact pool over ranks: the mean of the means,
/// and the mean of the variances plus the variance of the means. Exact if batches have equal sizes
/// and batch_norm_moving_average is false. Collective.
template <class Run>
void pool_statistics(Run& run) {
  static_assert(Run::device::host_memory, "pool_statistics is not written for GPUs yet");
  run.abort_peers_on_throw([&] {
    detail::train::pooled_statistics pool(run.segments());
    pool.add(run.weights(), 1);
    pool.write(run.comm(), run.weights());
    return true;
  });
}

/// Replaces every rank's running statistics by those of the next `updates` updates of `feed`, a
/// separate loader of the training set, under the mean model, computed as in training:
/// batch_norm_over, ghost batches. Frozen layers keep theirs. Collective. @throws usage_error for
/// no updates, or none with samples; error for a feed whose shape, normalization or classes differ
/// from training's.
template <class Run, detail::train::Feed F>
void recalibrate(Run& run, F& feed, int updates) {
  using M = typename Run::model_type;
  static_assert(M::device::host_memory, "recalibrate is not written for GPUs yet");
  static_assert(!Quantized<typename M::precision>,
                "recalibrate: statistics of an int8 network follow from the ranges of its layers; "
                "recalibrate in fp32, then load the weights and calibrate");
  static_assert(
      requires(M& model) { model.batch_norm_moving_average; },
      "recalibrate is of one set of batch norms: save what adversarial evaluates by "
      "save_evaluated, load it into the plain network and recalibrate that");
  run.abort_peers_on_throw([&] {
    detail::train::expect_recalibrates(run, feed, updates);
    M& model = run.model();
    auto pool = run.with_mean_model([&] {
      const detail::train::moving_average_guard guard{model.batch_norm_moving_average};
      model.batch_norm_moving_average = false;
      detail::train::pooled_statistics batches(run.segments());
      for (int k = 0; k < updates; ++k)
        for (const auto& b : feed.next()) {
          model.forward(run.packed_parameters(), run.weights(), b, phase::train, run.compute());
          batches.add(run.weights(), b.count);
        }
      return batches;
    });
    pool.write(run.comm(), run.weights());
    return true;
  });
}

/// Passed to `fit` among the callbacks: recalibrates before each validation. `feed` must outlive it
/// and differ from the one fit trains on. Moving averages continue from the recalibrated
/// statistics. Requires a `validation` among fit's arguments.
template <detail::train::Feed F>
struct recalibration {
  F& feed;  ///< Separate loader of the training set.
  /// Updates of `feed` used by each recalibration. Unit: updates. Range: 1 or more, else
  /// usage_error.
  int updates = 8;

  /// Called by a fit without `validation`. @throws error.
  [[noreturn, gnu::cold]] void refuse_without_validation() const {
    throw error(
        "recalibration: there is no validation to recalibrate for: give fit validation{data} too, "
        "or call recalibrate(run, feed, 8) after it");
  }
  /// Settings that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("recalibration, .updates ", updates);
  }

  /// Checks updates and feed. @throws as recalibrate.
  template <class Run>
  void check_on_all_ranks(Run& run, double) {
    detail::train::expect_recalibrates(run, feed, updates);
  }
  /// Recalibrates until freeze_batch_norm_at. Collective.
  template <class Run>
  void begin_validation_on_all_ranks(Run& run) {
    if (run.fit_state().epochs <= run.model().freeze_batch_norm_at) recalibrate(run, feed, updates);
  }
};
template <class F>
recalibration(F&) -> recalibration<F>;
template <class F>
recalibration(F&, int) -> recalibration<F>;

}  // namespace cordee::inline CORDEE_ABI
