// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The micro-batches of each update on one rank, prepared while the previous update trains.
//
// Each epoch has one permutation of the data set, determined by (seed, epoch). An update takes a
// contiguous range of it, the global batch; rank r has the r-th slice, cut into `accumulate` (times
// a batch schedule's factor) micro-batches. Hence samples and their augmentation do not depend on
// the number of ranks, and update k depends only on (seed, k): to resume is to seek.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include <cordee/core/atomic.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/input_statistics.hpp>
#include <cordee/data/loader_options.hpp>
#include <cordee/data/mixing.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/pad_crop_flip.hpp>
#include <cordee/data/prefetcher.hpp>
#include <cordee/data/sample_threads.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/data/staged_plan.hpp>
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

/// The batches of one rank. Uses only rank() and size() of the communicator, at construction.
template <class S, Augmentation A = pad_crop_flip, Mixing M = detail::data::unmixed>
class loader {
  static_assert(detail::data::has_dataset_members<S>() &&
                detail::data::has_augmentation_members<A>());

 public:
  /// Plans the updates. @throws usage_error for an option out of its range (loader_options.hpp,
  /// normalize.hpp, the mixing), more than 4 channels or 2^32 - 1 samples, or updates that do not
  /// fit host memory; error for an empty data set, or one smaller than the global batch with
  /// last_batch::drop.
  template <detail::data::Placed Communicator>
  [[gnu::cold]] loader(S dataset, const Communicator& comm, loader_options options,
                       A augmentation = {}, normalize norm = {}, M mixing = {})
      : dataset_(std::move(dataset)),
        augmentation_(std::move(augmentation)),
        normalization_(norm),
        mixing_(std::move(mixing)),
        options_(options),
        rank_(comm.rank()),
        ranks_(comm.size()),
        threads_(detail::data::count_sample_threads(options.decode_threads, many_threads)),
        prefetcher_(this, fill_update,
                    detail::data::updates_ahead(options.prefetch, many_threads)) {
    expects(options.decode_threads >= 0 &&
                options.decode_threads <= detail::data::most_sample_threads &&
                options.prefetch >= 0 && options.prefetch <= most_prefetch,
            "loader: .decode_threads is within 0 .. 1024, .prefetch within 0 .. 7");
    expects(dataset_.image().channels <= 4, "loader: images have at most 4 channels");
    norm.expect_covers(dataset_.image().channels);
    (void)mixing_.active();  // refuses wrong options
    plan_ = detail::data::plan_that_fits(dataset_.size(), image(), options, ranks_, prefetch() + 1);
  }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  [[nodiscard]] extent image() const { return dataset_.image(); }   ///< Extent of the images.
  [[nodiscard]] int classes() const { return dataset_.classes(); }  ///< Classes of the data set.
  /// Number of samples in the data set.
  [[nodiscard]] std::int64_t samples() const { return plan_.first().samples; }
  /// Samples of the first update over all ranks. Like micro_batch() and accumulate(), excludes the
  /// factor of loader_options::batch_schedule.
  [[nodiscard]] std::int64_t global_batch() const { return plan_.first().global_batch; }
  /// Samples of one micro-batch on one rank, for `factor` times the batch, rounded up: some may
  /// have one fewer.
  [[nodiscard]] std::int64_t micro_batch(int factor = 1) const {
    return (global_batch() * factor + slices() - 1) / slices();
  }
  /// micro_batch() in the stage of .batch_schedule where it is largest.
  [[nodiscard]] std::int64_t largest_micro_batch() const {
    return micro_batch(options_.grow_micro_batch ? plan_.largest_factor() : 1);
  }
  /// Micro-batches of the first update on one rank.
  [[nodiscard]] int accumulate() const { return options_.accumulate; }
  [[nodiscard]] int ranks() const { return ranks_; }  ///< Ranks of the communicator.
  [[nodiscard]] std::uint64_t seed() const { return options_.seed; }  ///< `seed` of the options.
  /// How kernels convert the bytes.
  [[nodiscard]] cordee::normalization normalization() const { return normalization_; }
  /// This rank's copy of the data set.
  [[nodiscard]] const S& dataset() const { return dataset_; }

  /// Sets stages decided during the run; those before step() must not change. @throws usage_error
  /// if the options have a .batch_schedule, else as the constructor.
  [[gnu::cold]] void set_batch_schedule(const cordee::batch_schedule& stages) {
    expects(decided_ || options_.batch_schedule.begin() == options_.batch_schedule.end(),
            "loader: the schedule decides the global batch, so there is no .batch_schedule");
    prefetcher_.forget();
    options_.batch_schedule = stages;
    plan_ =
        detail::data::plan_that_fits(dataset_.size(), image(), options_, ranks_, prefetch() + 1);
    decided_ = true;
  }
  /// Stages of .batch_schedule, or those set last.
  [[nodiscard]] const cordee::batch_schedule& stages() const { return options_.batch_schedule; }
  /// Updates in so many epochs, rounded up. @throws usage_error for a negative or infinite number,
  /// NaN, or more updates than can be counted.
  [[nodiscard]] std::int64_t steps(double epochs) const { return plan_.steps(epochs); }
  /// Epochs of data seen before update `step`.
  [[nodiscard]] double epoch(std::int64_t step) const { return plan_.epoch(step); }

  /// The update that `next` will return.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Makes `step` the update that next() returns. @throws usage_error for a negative step, or one
  /// beyond the largest that can be counted.
  void seek(std::int64_t step) { step_ = plan_.checked_step(step); }

  /// Returns this rank's micro-batches of one update, in order; valid until the next call. Throws
  /// what the data set threw, and then remains at that step.
  [[gnu::cold]] std::span<const batch<cpu>> next() {
    expects(step_ <= plan_.most_steps(), "loader: no update after the last that can be counted");
    const std::int64_t begin = detail::core::steady_nanoseconds();
    if (first_call_ == 0) first_call_ = begin;
    detail::data::rank_update& update = prefetcher_.take(step_);
    last_return_ = detail::core::steady_nanoseconds();
    waited_ += last_return_ - begin;
    ++taken_;
    ++step_;
    return update.micro.span();
  }

  /// Threads that read and augment.
  [[nodiscard]] int decode_threads() const { return threads_.size(); }
  /// Updates that reader threads may run ahead.
  [[nodiscard]] int prefetch() const { return prefetcher_.depth(); }
  /// Returns how long training waited for data, and why. Call it on the thread that calls next().
  [[nodiscard]] input_statistics statistics() const {
    const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
    input_statistics s{.updates = taken_,
                       .samples = made_.load(detail::core::memory_order::relaxed),
                       .threads = threads_.size(),
                       .elapsed = seconds(last_return_ - first_call_),
                       .waited = seconds(waited_),
                       .busy = seconds(threads_.busy()),
                       .augment = seconds(augment_.load(detail::core::memory_order::relaxed)),
                       .upload = upload_,
                       .reading = {}};
    if constexpr (requires { dataset_.reading(); }) s.reading = dataset_.reading();
    return s;
  }
  /// Adds seconds of copies to the device to the statistics; called by `fit`.
  void add_upload(double seconds) { upload_ += seconds; }
  /// One line for logs: which samples this rank reads, its threads and its memory.
  [[nodiscard]] std::string describe_input() const {
    const std::int64_t most = micro_batch() * options_.accumulate * plan_.largest_factor();
    std::string text = concat(
        "rank ", rank_, " of ", ranks_, " reads slice ", rank_, " of each update of ",
        global_batch(), " samples, in an order that is a function of (seed, epoch); ",
        threads_.size(), threads_.size() == 1 ? " thread" : " threads", ", ", prefetch(),
        prefetch() == 1 ? " update" : " updates", " ahead, ",
        detail::core::grouped(static_cast<std::size_t>(most * (prefetch() + 1)) * image().size()),
        " bytes");
    if constexpr (requires { dataset_.describe(); }) text += concat("; ", dataset_.describe());
    if (augmentation_.active()) text += concat("; ", describe_augmentation());
    return concat(text, "; ", describe_epochs());
  }
  /// One line for logs; "none" for an inactive augmentation.
  [[nodiscard, gnu::cold]] std::string describe_augmentation() const {
    return augmentation_.active() ? detail::core::describe_policy(augmentation_) : "none";
  }
  /// One line for logs: samples, global batch, the ends of epochs.
  [[nodiscard, gnu::cold]] std::string describe() const {
    return concat(detail::core::grouped(samples()), " samples of ", cordee::describe(image()),
                  " in ", classes(), " classes; global batch ", global_batch(), " = ",
                  micro_batch(), " per micro-batch x ", ranks_, " ranks x ", options_.accumulate,
                  " micro-batches",
                  global_batch() % slices() == 0 ? "" : " (some have one sample fewer)", "; ",
                  describe_epochs());
  }

 private:
  [[nodiscard, gnu::cold]] std::string describe_epochs() const {
    return concat(plan_.describe(options_.grow_micro_batch),
                  detail::data::describe(options_.last_batch), "; seed ", options_.seed,
                  mixing_.active() ? concat("; ", mixing_.describe()) : "");
  }
  [[nodiscard]] std::int64_t slices() const { return std::int64_t{ranks_} * options_.accumulate; }

  static constexpr int most_prefetch = detail::data::prefetcher::most_depth;
  static constexpr bool many_threads = detail::data::DrawnAtRandom<S>;

  // Runs on the prefetcher's thread, which alone uses order_ and positions_.
  static void fill_update(void* self, detail::data::rank_update& update) {
    static_cast<loader*>(self)->fill(update);
  }
  [[gnu::cold]] void fill(detail::data::rank_update& u) {
    const auto& stage = plan_.at(u.step);
    const std::int64_t micro = std::int64_t{options_.accumulate} *
                               (options_.grow_micro_batch ? 1 : stage.factor),
                       first_slice = rank_ * micro, last_slice = first_slice + micro,
                       global = stage.plan.global_batch;
    const auto begin_of = [&](std::int64_t slice) { return global * slice / (ranks_ * micro); };
    detail::data::sample_range made{begin_of(first_slice), begin_of(last_slice)};
    if (mixing_.active()) made = detail::data::whole_pairs(made, global);
    const auto count = static_cast<std::size_t>(made.last - made.first);
    const std::size_t image = dataset_.image().size();
    u.pixels.resize(count * image);  // (count, channels, height, width)
    u.labels.resize(count);
    positions_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto p = plan_.sample(u.step, made.first + static_cast<std::int64_t>(i));
      positions_[i] = {p.epoch, order_.at(dataset_, options_.seed, p.epoch, p.index)};
    }
    current_ = &u;
    if (augmentation_.active()) raw_.resize(static_cast<std::size_t>(threads_.size()) * image);
    threads_.run(count, make_sample, this);
    if (mixing_.active())
      detail::data::mix_pairs(
          mixing_, dataset_.image(),
          random_sequence(options_.seed, purpose::mixing, 0, static_cast<std::uint64_t>(u.step)),
          u);
    made_.fetch_add(static_cast<std::int64_t>(count), detail::core::memory_order::relaxed);
    u.micro.clear();
    for (std::int64_t k = first_slice; k < last_slice; ++k) {
      const auto begin = static_cast<std::size_t>(begin_of(k) - made.first);
      const auto n = static_cast<std::size_t>(begin_of(k + 1) - begin_of(k));
      batch<cpu> b{{u.pixels.data() + begin * image, n * image},
                   {u.labels.data() + begin, n},
                   static_cast<int>(n),
                   global,
                   ranks_,
                   normalization_};
      if (mixing_.active()) {
        b.other_labels = {u.other_labels.data() + begin, n};
        b.label_weights = {u.label_weights.data() + begin, n};
      }
      b.first_sample = begin_of(k);
      u.micro.push_back(b);
    }
  }

  // Runs on several threads: writes the augmented image and the label of sample i of current_.
  static void make_sample(void* self, std::size_t i, int worker) {
    static_cast<loader*>(self)->make(i, static_cast<std::size_t>(worker));
  }
  void make(std::size_t i, std::size_t worker) {
    const auto epoch = static_cast<std::uint64_t>(positions_[i].epoch);
    const auto sample = static_cast<std::size_t>(positions_[i].index);
    const extent image = dataset_.image();
    const std::span<std::uint8_t> out{current_->pixels.data() + i * image.size(), image.size()};
    if (!augmentation_.active()) {
      current_->labels[i] = read(epoch, sample, out);
      return;
    }
    const std::span<std::uint8_t> raw{raw_.data() + worker * image.size(), image.size()};
    current_->labels[i] = read(epoch, sample, raw);
    const std::int64_t begin = detail::core::steady_nanoseconds();
    augmentation_(image, raw, out,
                  random_sequence(options_.seed, purpose::augmentation, epoch, sample));
    augment_.fetch_add(detail::core::steady_nanoseconds() - begin,
                       detail::core::memory_order::relaxed);
  }
  int read(std::uint64_t epoch, std::size_t sample, std::span<std::uint8_t> out) const {
    if constexpr (detail::data::DrawnAtRandom<S>)
      return dataset_.read(sample, out,
                           random_sequence(options_.seed, purpose::resampling, epoch, sample));
    else
      return dataset_.read(sample, out);
  }

  S dataset_;
  A augmentation_;
  cordee::normalization normalization_;
  M mixing_;
  loader_options options_;
  int rank_, ranks_;
  detail::data::staged_plan plan_;
  std::int64_t step_ = 0;
  bool decided_ = false;  // the batch, by set_batch_schedule
  detail::data::epoch_order order_;
  detail::core::pod_vector<detail::data::batch_plan::position> positions_;
  detail::data::rank_update* current_ = nullptr;  // what threads_ fill
  detail::core::pod_vector<std::uint8_t> raw_;    // (threads, channels, height, width)

  std::int64_t taken_ = 0, first_call_ = 0, last_return_ = 0, waited_ = 0;
  double upload_ = 0;
  detail::core::atomic<std::int64_t> made_{0}, augment_{0};

  detail::data::sample_threads threads_;
  detail::data::prefetcher prefetcher_;  // last: its thread uses the others
};

}  // namespace cordee::inline CORDEE_ABI
