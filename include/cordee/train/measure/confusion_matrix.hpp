// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which classes are confused with which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI {

/// Counts of samples by class (row) and predicted class (column), as in scikit-learn.
class confusion_matrix {
 public:
  /// An empty matrix. @throws usage_error for fewer than one class.
  explicit confusion_matrix(int classes) : classes_(static_cast<std::size_t>(classes)) {
    expects(classes > 0, "confusion_matrix: there is at least one class");
    counts_.resize(classes_ * classes_);
  }

  /// Counts the mean model's predictions on the whole data set, the same on every rank. The
  /// prediction is the class of the largest logit, the first among equals: without NaNs the
  /// diagonal sums to the metrics' top1. Collective. @throws error if a label is out of range, and
  /// as run_operations::evaluate.
  template <class Run, Dataset S>
  [[nodiscard]] static confusion_matrix from(Run& run, const S& dataset, const normalization& norm,
                                             int batch_size = 250, int decode_threads = 0);

  /// Adds samples of class `label` predicted as class `predicted`. @throws usage_error for a class
  /// out of range.
  void add(int label, int predicted, std::int64_t samples = 1) {
    counts_[index(label, predicted)] += samples;
  }

  [[nodiscard]] int classes() const { return static_cast<int>(classes_); }  ///< Rows, and columns.
  /// Number of samples of class `label` predicted as class `predicted`. @throws usage_error for a
  /// class out of range.
  [[nodiscard]] std::int64_t operator()(int label, int predicted) const {
    return counts_[index(label, predicted)];
  }
  /// Sum of all counts.
  [[nodiscard]] std::int64_t samples() const {
    std::int64_t sum = 0;
    for (const std::int64_t n : counts_) sum += n;
    return sum;
  }
  /// Share of samples predicted correctly; NaN without samples.
  [[nodiscard]] double accuracy() const {
    std::int64_t right = 0;
    for (int k = 0; k < classes(); ++k) right += (*this)(k, k);
    return ratio(right, samples());
  }
  /// Share of a class's samples predicted correctly; NaN without such samples. @throws usage_error
  /// for a class out of range.
  [[nodiscard]] double recall(int label) const {
    std::int64_t all = 0;
    for (int k = 0; k < classes(); ++k) all += (*this)(label, k);
    return ratio((*this)(label, label), all);
  }
  /// Share of a class's predictions that are correct; NaN without such predictions. @throws
  /// usage_error for a class out of range.
  [[nodiscard]] double precision(int predicted) const {
    std::int64_t all = 0;
    for (int k = 0; k < classes(); ++k) all += (*this)(k, predicted);
    return ratio((*this)(predicted, predicted), all);
  }

 private:
  [[nodiscard]] std::size_t index(int label, int predicted) const {
    expects(label >= 0 && label < classes() && predicted >= 0 && predicted < classes(),
            "confusion_matrix: a class is out of range");
    return static_cast<std::size_t>(label) * classes_ + static_cast<std::size_t>(predicted);
  }
  static double ratio(std::int64_t part, std::int64_t all) {
    return all > 0 ? static_cast<double>(part) / static_cast<double>(all)
                   : std::numeric_limits<double>::quiet_NaN();
  }

  std::size_t classes_;
  std::vector<std::int64_t> counts_;  // (label, predicted)
};

template <class Run, Dataset S>
confusion_matrix confusion_matrix::from(Run& run, const S& dataset, const normalization& norm,
                                        int batch_size, int decode_threads) {
  const auto classes = static_cast<std::size_t>(Run::model_type::classes);
  std::vector<double> counts(classes * classes);
  const auto add = [&](const batch<cpu>& b) {
    (void)run.model().read_metrics(run.compute());  // checks the labels
    const auto logits = copy_to_host(run.model().get_device(), run.model().logits(), run.compute());
    for (std::size_t n = 0; n < b.labels.size; ++n) {
      std::size_t largest = 0;
      for (std::size_t k = 1; k < classes; ++k)
        if (detail::precision::widened(logits[n * classes + k]) >
            detail::precision::widened(logits[n * classes + largest]))
          largest = k;
      counts[static_cast<std::size_t>(b.labels.data[n]) * classes + largest] += 1;
    }
  };
  const auto sum_of_ranks = [&] {
    allreduce_host(run.comm(), counts, reduce_op::sum);
    confusion_matrix sum(Run::model_type::classes);
    for (std::size_t i = 0; i < counts.size(); ++i)
      sum.add(static_cast<int>(i / classes), static_cast<int>(i % classes),
              detail::core::llround(counts[i]));
    return sum;
  };
  return run.abort_peers_on_throw([&] {
    return detail::train::over_slice(run, dataset, norm, batch_size, decode_threads, add,
                                     sum_of_ranks);
  });
}

}  // namespace cordee::inline CORDEE_ABI
