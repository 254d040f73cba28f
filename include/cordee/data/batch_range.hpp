// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batches for `fit` from any range, or any function that returns one after another.
//
//   R                                     update k of a rank takes            to resume
//   a forward range: a container, a view  elements k a .. k a + a - 1 of it,  moves an iterator
//                                         from its begin in every epoch
//   f(n), n = 0, 1, 2, ...                f(k a) .. f(k a + a - 1)            calls nothing
//   f(), or a single-pass range           the next a                          draws earlier ones
//
// where a is `accumulate`, and an f ends when it returns an empty std::optional. Each rank has its
// own range. Ranks may have different numbers of samples, which fit sums over ranks, so the mean is
// exact.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/loader_options.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::data {

/// How updates are made of a range of batches.
struct batch_range_options {
  /// Samples of an update over all ranks, in records, schedules and positions of checkpoints; those
  /// of each update are counted. Unit: samples. Range: 1 or more, else usage_error.
  std::int64_t global_batch = 0;
  /// Updates of an epoch; 0: as many as a forward range has batches for. Unit: updates. Range: 1 or
  /// more for functions and ranges of a single pass, else usage_error.
  std::int64_t updates = 0;
  /// Batches of an update on one rank. Range: 1 or more, else usage_error.
  int accumulate = 1;
};

template <class R>
concept Iterable = requires(R& r) { std::begin(r) != std::end(r); };
template <class R>
concept MultiPass = Iterable<R> && std::forward_iterator<decltype(std::begin(std::declval<R&>()))>;

/// Batch n, where `at` is: a pointer to it if it is an element of a forward range, else an
/// std::optional that has it. Null at the end.
template <class R>
auto draw_from(R& source, auto& at, std::int64_t n) {
  if constexpr (!Iterable<R>) {
    if constexpr (std::invocable<R&, std::int64_t>)
      return std::optional(source(n));
    else
      return std::optional(source());
  } else if constexpr (MultiPass<R> && std::is_lvalue_reference_v<decltype(**at)>) {
    return *at == std::end(source) ? nullptr : &**at;
  } else {
    return *at == std::end(source) ? std::nullopt : std::optional(**at);
  }
}
/// The beginning of a range; functions count their calls.
auto begin_of(auto& source) {
  if constexpr (Iterable<decltype(source)>)
    return std::begin(source);
  else
    return std::int64_t{0};
}

}  // namespace detail::data

/// The batches of one rank, from a range or a function (the table above); R is a reference if the
/// range must not be copied. Uses only size() of the communicator, at construction.
template <class R, class Count, class D = cpu>
  requires detail::data::Iterable<std::remove_reference_t<R>> ||
           std::invocable<std::remove_reference_t<R>&, std::int64_t> ||
           std::invocable<std::remove_reference_t<R>&>
class batch_range {
  using source = std::remove_reference_t<R>;
  using iterator = decltype(detail::data::begin_of(std::declval<source&>()));
  using drawn = decltype(detail::data::draw_from(
      std::declval<source&>(), std::declval<std::optional<iterator>&>(), std::int64_t{}));
  static constexpr bool repeats = detail::data::MultiPass<source>,
                        seeks = detail::data::Iterable<source>
                                    ? repeats
                                    : std::invocable<source&, std::int64_t>;

 public:
  /// Batches have as many samples as they are found to have, which `fit` sums over ranks.
  static constexpr bool counts_samples = true;
  /// What the model reads: an element, or what the function returns, without std::optional.
  using data_type = std::remove_cvref_t<decltype(*std::declval<drawn>())>;

  /// count(batch) returns a batch's number of samples. @throws usage_error for an option out of its
  /// range, or fewer batches than an update needs.
  template <class Communicator>
  batch_range(R batches, const Communicator& comm, detail::data::batch_range_options options,
              Count count, D = {})
      : source_(std::forward<R>(batches)),
        count_(std::move(count)),
        options_(options),
        ranks_(comm.size()) {
    expects(options.global_batch > 0 && options.accumulate > 0 && options.updates >= 0,
            "batch_range: .global_batch, the samples of an update over all ranks, and .accumulate "
            "are at least 1, .updates at least 0");
    if constexpr (repeats) {
      const auto all = std::ranges::distance(std::begin(source_), std::end(source_));
      const std::int64_t updates = static_cast<std::int64_t>(all) / options.accumulate;
      if (options_.updates == 0) options_.updates = std::max<std::int64_t>(updates, 1);
      if (options_.updates > updates)
        throw usage_error(concat("batch_range: the range has ", all, " batches, ", options_.updates,
                                 " updates take ", options.accumulate, " each"));
    } else {
      expects(options.updates > 0,
              "batch_range: set .updates, the updates of an epoch: the length of a function, or of "
              "a range of a single pass, is not known");
    }
    expects(options_.updates <= most_samples / options.global_batch,
            "batch_range: an epoch has more than 2^53 samples");
    plan_ = {options_.updates * options.global_batch, options.global_batch, last_batch::drop};
  }

  /// Samples of an epoch over all ranks, from the global batch.
  [[nodiscard]] std::int64_t samples() const { return plan_.samples; }
  [[nodiscard]] std::int64_t global_batch() const { return plan_.global_batch; }  ///< See above.
  [[nodiscard]] int accumulate() const { return options_.accumulate; }            ///< See above.
  [[nodiscard]] int ranks() const { return ranks_; }  ///< Ranks of the communicator.
  /// Updates in so many epochs, rounded up. @throws usage_error if they cannot be counted.
  [[nodiscard]] std::int64_t steps(double epochs) const { return plan_.steps(epochs); }
  /// Epochs before update `step`.
  [[nodiscard]] double epoch(std::int64_t step) const { return plan_.epoch(step); }
  /// The update that `next` will return.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Makes `step` the update that next() returns. @throws usage_error if it cannot be counted; for
  /// unnumbered functions and single-pass ranges also for an update before the last two.
  void seek(std::int64_t step) {
    expects(step >= 0 && step < most_samples / options_.accumulate,
            "batch_range: a step is counted from 0, and below 2^53");
    if constexpr (!seeks)
      if (step * options_.accumulate < position_ && updates_[step % 2].number != step)
        throw usage_error(concat("batch_range: update ", step,
                                 " is behind: make a new source, or give a forward range or a "
                                 "function of the batch's number"));
    step_ = step;
  }
  /// Returns this rank's micro-batches of one update; valid until the next call but one.
  /// @throws error if the batches have ended, and what their source throws.
  std::span<const data_batch<data_type, D>> next() {
    update& u = updates_[step_ % 2];
    if (u.number != step_) {
      u.number = -1;
      u.micro.clear();
      u.data.clear();
      u.data.reserve(static_cast<std::size_t>(options_.accumulate));
      for (int j = 0; j < options_.accumulate; ++j) append(u, step_ * options_.accumulate + j);
      u.number = step_;
    }
    ++step_;
    return u.micro;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(options_.updates, " updates an epoch; global batch ", options_.global_batch,
                  " on ", ranks_, " ranks x ", options_.accumulate, " batches of ",
                  repeats ? "a range, the same in each epoch"
                  : seeks ? "a function of their number"
                          : "a source of a single pass");
  }

 private:
  static constexpr std::int64_t most_samples = std::int64_t{1} << 53;

  struct update {
    std::int64_t number = -1;
    std::vector<data_type> data;  // none where the range's own elements are referred to
    std::vector<data_batch<data_type, D>> micro;
  };

  // Batch n, at which the source is; it is kept in `u` unless it is the range's own.
  const data_type* draw(update& u, std::int64_t n) {
    auto item = detail::data::draw_from(source_, at_, n);
    if (!item)
      throw error(concat("batch_range: the batches ended before number ", n, ", of update ",
                         n / options_.accumulate, ": each rank needs ", options_.accumulate,
                         " for every update of the run"));
    if constexpr (!seeks) ++*at_, ++position_;
    if constexpr (std::is_pointer_v<drawn>)
      return item;
    else
      return &u.data.emplace_back(*std::move(item));
  }
  void append(update& u, std::int64_t n) {
    if (!at_) at_ = detail::data::begin_of(source_);
    if constexpr (repeats) {
      const std::int64_t index = n % (options_.updates * options_.accumulate);
      if (index == 0 || index < position_) {
        at_ = std::begin(source_);
        position_ = 0;
      }
      std::ranges::advance(*at_, static_cast<std::iter_difference_t<iterator>>(index - position_),
                           std::end(source_));
      position_ = index;
    } else if constexpr (!seeks) {
      while (position_ < n) {
        draw(u, position_);
        u.data.pop_back();
      }
    }
    const data_type* const data = draw(u, n);
    const auto samples = static_cast<std::int64_t>(count_(*data));
    expects(samples >= 0 && samples <= std::numeric_limits<int>::max(),
            "batch_range: the number of samples of a batch is negative, or above 2^31 - 1");
    u.micro.push_back({batch<D>{.count = static_cast<int>(samples),
                                .global_samples = options_.global_batch,
                                .ranks = ranks_},
                       data});
  }

  R source_;
  Count count_;
  detail::data::batch_range_options options_;
  detail::data::batch_plan plan_;
  int ranks_;
  std::optional<iterator> at_;
  std::int64_t position_ = 0;  // of the batch that comes next, or of `at_` in a forward range
  update updates_[2];
  std::int64_t step_ = 0;
};
template <class R, class C, class Count>
batch_range(R&&, const C&, detail::data::batch_range_options, Count) -> batch_range<R, Count, cpu>;

}  // namespace cordee::inline CORDEE_ABI
