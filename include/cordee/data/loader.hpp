// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The micro-batches of each update on one rank, made while the previous update trains.
//
// Each epoch has one permutation of the data set, a function of (seed, epoch). An update takes a
// contiguous range of it, the global batch; rank r has the r-th slice, cut into `accumulate`
// consecutive micro-batches. Hence the sequence of samples and their augmentation do not depend on
// the number of ranks, and update k is a function of (seed, k): to resume is to seek.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/loader_options.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/pad_crop_flip.hpp>
#include <cordee/data/prefetcher.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::data {

/// One of `size()` ranks.
template <class Communicator>
concept Placed = requires(const Communicator& comm) {
  { comm.rank() } -> std::convertible_to<int>;
  { comm.size() } -> std::convertible_to<int>;
};

}  // namespace detail::data

/// The batches of one rank. Only rank() and size() of the communicator are used, at construction.
template <Dataset S, Augmentation A = pad_crop_flip>
class loader {
 public:
  template <detail::data::Placed Communicator>
  [[gnu::cold]] loader(S dataset, const Communicator& comm, loader_options options,
                       A augmentation = {}, normalize norm = {})
      : dataset_(std::move(dataset)),
        augmentation_(std::move(augmentation)),
        norm_(norm),
        options_(options),
        rank_(comm.rank()),
        ranks_(comm.size()) {
    expects((options.global_batch > 0) != (options.micro_batch > 0) && options.global_batch >= 0 &&
                options.micro_batch >= 0,
            "loader: set either .global_batch or .micro_batch, to a positive number");
    expects(options.accumulate > 0,
            "loader: .accumulate, the number of micro-batches, must be at least 1");
    expects(dataset_.image().channels <= 4, "loader: images have at most 4 channels");
    norm.expect_covers(dataset_.image().channels);
    expects(dataset_.size() <= std::numeric_limits<std::uint32_t>::max(),
            "loader: the data set has more than 2^32 - 1 samples");
    plan_ = {static_cast<std::int64_t>(dataset_.size()), checked_batch(), options.last_batch};
    if (plan_.samples == 0) throw error("loader: the data set is empty");
    if (options.last_batch == last_batch::drop && plan_.global_batch > plan_.samples)
      throw error(concat(
          "loader: a global batch of ", plan_.global_batch, " does not fit the ", plan_.samples,
          " samples of the data set, so last_batch::drop would leave out all of them: "
          "use last_batch::carry or last_batch::pad, or a smaller batch"));
  }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  [[nodiscard]] extent image() const { return dataset_.image(); }
  [[nodiscard]] int classes() const { return dataset_.classes(); }
  [[nodiscard]] std::int64_t samples() const { return plan_.samples; }
  [[nodiscard]] std::int64_t global_batch() const { return plan_.global_batch; }
  /// Samples of one micro-batch on one rank, rounded up: some have one fewer where `slices` does
  /// not divide the global batch.
  [[nodiscard]] std::int64_t micro_batch() const {
    return (plan_.global_batch + slices() - 1) / slices();
  }
  [[nodiscard]] int accumulate() const { return options_.accumulate; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::uint64_t seed() const { return options_.seed; }
  [[nodiscard]] normalization norm() const { return norm_; }
  [[nodiscard]] const S& dataset() const { return dataset_; }

  [[nodiscard]] std::int64_t steps(double epochs) const { return plan_.steps(epochs); }
  [[nodiscard]] double epoch(std::int64_t step) const { return plan_.epoch(step); }

  /// The update that `next` will return.
  [[nodiscard]] std::int64_t step() const { return step_; }
  void seek(std::int64_t step) {
    expects(step >= 0, "loader: steps are counted from 0");
    expects(step <= plan_.most_steps(), "loader: a step beyond the largest that can be counted");
    step_ = step;
  }

  /// This rank's micro-batches of one update, in order; valid until the next call. Throws what the
  /// data set threw, and stays at that step.
  std::span<const batch<cpu>> next() {
    expects(step_ <= plan_.most_steps(), "loader: no update after the last that can be counted");
    detail::data::rank_update& update = prefetcher_.take(step_);
    ++step_;
    return update.micro.span();
  }

  [[nodiscard]] std::string describe() const {
    constexpr std::array epoch_ends{"the last samples of an epoch are dropped",
                                    "the last batch of an epoch is padded from its start",
                                    "batches continue across epochs"};
    return concat(
        detail::core::grouped(plan_.samples), " samples of ", cordee::describe(image()), " in ",
        classes(), " classes; global batch ", plan_.global_batch, " = ", micro_batch(),
        " per micro-batch x ", ranks_, " ranks x ", options_.accumulate, " micro-batches",
        plan_.global_batch % slices() == 0 ? "" : " (some have one sample fewer)", "; ",
        epoch_ends[static_cast<std::size_t>(options_.last_batch)], "; seed ", options_.seed);
  }

 private:
  [[nodiscard]] std::int64_t slices() const { return std::int64_t{ranks_} * options_.accumulate; }

  // The global batch. Throws usage_error if it, or the number of its micro-batches, is too large.
  [[nodiscard, gnu::cold]] std::int64_t checked_batch() const {
    constexpr std::int64_t most = detail::data::largest_batch;
    if (slices() > most || options_.global_batch > most || options_.micro_batch > most / slices())
      throw usage_error(concat(
          "loader: ", options_.global_batch > 0 ? "a global batch of " : "",
          options_.global_batch > 0 ? options_.global_batch : options_.micro_batch,
          options_.global_batch > 0 ? " in " : " samples per micro-batch x ", ranks_, " ranks x ",
          options_.accumulate, " micro-batches: at most ", most, " samples make one update"));
    return options_.global_batch > 0 ? options_.global_batch : options_.micro_batch * slices();
  }

  // Runs on the prefetcher's thread, which alone uses order_ and raw_.
  static void fill_update(void* self, detail::data::rank_update& update) {
    static_cast<loader*>(self)->fill(update);
  }
  void fill(detail::data::rank_update& u) {
    const std::int64_t first_slice = std::int64_t{rank_} * options_.accumulate,
                       last_slice = first_slice + options_.accumulate;
    const auto begin_of = [&](std::int64_t slice) { return plan_.global_batch * slice / slices(); };
    const std::int64_t first = begin_of(first_slice);
    const auto count = static_cast<std::size_t>(begin_of(last_slice) - first);
    const std::size_t image = dataset_.image().size();
    u.pixels.resize(count * image);  // (count, channels, height, width)
    u.labels.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      u.labels[i] = read(plan_.sample(u.step, first + static_cast<std::int64_t>(i)),
                         {u.pixels.data() + i * image, image});
    u.micro.clear();
    for (std::int64_t k = first_slice; k < last_slice; ++k) {
      const auto begin = static_cast<std::size_t>(begin_of(k) - first);
      const auto n = static_cast<std::size_t>(begin_of(k + 1) - begin_of(k));
      u.micro.push_back({{u.pixels.data() + begin * image, n * image},
                         {u.labels.data() + begin, n},
                         static_cast<int>(n),
                         plan_.global_batch,
                         ranks_,
                         norm_});
    }
  }

  // Writes the augmented image of one sample, returns its label.
  int read(const detail::data::batch_plan::position& p, std::span<std::uint8_t> out) {
    if (p.epoch != order_epoch_ || order_.empty()) {
      order_ = detail::data::shuffled_indices(options_.seed, p.epoch, dataset_.size());
      order_epoch_ = p.epoch;
    }
    const std::size_t sample = order_[static_cast<std::size_t>(p.index)];
    if (!augmentation_.active()) return dataset_.read(sample, out);
    raw_.resize(out.size());
    const int label = dataset_.read(sample, raw_.span());
    augmentation_(dataset_.image(), std::as_const(raw_).span(), out,
                  random_sequence(options_.seed, purpose::augmentation,
                                  static_cast<std::uint64_t>(p.epoch), sample));
    return label;
  }

  S dataset_;
  A augmentation_;
  normalization norm_;
  loader_options options_;
  int rank_, ranks_;
  detail::data::batch_plan plan_;
  std::int64_t step_ = 0;

  std::vector<std::uint32_t> order_;
  std::int64_t order_epoch_ = -1;
  detail::core::pod_vector<std::uint8_t> raw_;

  detail::data::prefetcher prefetcher_{this, fill_update};  // last: its thread uses the others
};

}  // namespace cordee::inline CORDEE_ABI
