// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who sees which sample when, fetched while the previous update trains.
//
// Each epoch has one permutation of the data set, a function of (seed, epoch). An update takes a
// run of it, the global batch; rank r has the r-th contiguous slice, cut into `accumulate`
// consecutive micro-batches. So the sequence of samples, and what augmentation makes of them, does
// not depend on the number of ranks, and update k is a function of (seed, k): resuming is seeking.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/series.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/data/augment.hpp>
#include <cordee/data/batching.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/normalise.hpp>
#include <cordee/data/order.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// One of `size()` ranks.
template <class Link>
concept Placed = requires(const Link& link) {
  { link.rank() } -> std::convertible_to<int>;
  { link.size() } -> std::convertible_to<int>;
};

/// Feeds one rank. Of the link only rank() and size() are asked, when it is made.
template <Dataset S, Augmentation A = augment>
class loader {
 public:
  template <Placed Link>
  [[gnu::cold]] loader(S dataset, const Link& link, batching how, A augmentation = {},
                       normalise norm = {})
      : dataset_(std::move(dataset)),
        augmentation_(std::move(augmentation)),
        norm_(norm),
        how_(how),
        rank_(link.rank()),
        ranks_(link.size()) {
    expects(
        (how.global_batch > 0) != (how.per_rank > 0) && how.global_batch >= 0 && how.per_rank >= 0,
        "loader: give either .global_batch or .per_rank, and a positive one");
    expects(how.accumulate > 0, "loader: .accumulate counts micro-batches, at least 1");
    expects(dataset_.image().channels <= 4, "loader: more than four channels cannot be normalised");
    plan_ = {static_cast<std::int64_t>(dataset_.size()),
             how.global_batch > 0 ? how.global_batch : how.per_rank * ranks_ * how.accumulate,
             how.tail};
    if (plan_.samples == 0) throw error("loader: the data set is empty");
    if (how.tail == tail::drop && plan_.global_batch > plan_.samples)
      throw error(text("loader: a global batch of ", plan_.global_batch, " does not fit the ",
                       plan_.samples,
                       " samples of the data set, and tail::drop would drop them all: "
                       "use tail::carry or tail::pad, or a smaller batch"));
  }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader() {
    if (!worker_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  [[nodiscard]] extent image() const { return dataset_.image(); }
  [[nodiscard]] int classes() const { return dataset_.classes(); }
  [[nodiscard]] std::int64_t samples() const { return plan_.samples; }
  [[nodiscard]] std::int64_t global_batch() const { return plan_.global_batch; }
  /// Samples of one micro-batch of a rank; the first ones may have one fewer than the last ones,
  /// which this rounds up.
  [[nodiscard]] std::int64_t per_rank() const {
    return (plan_.global_batch + slices() - 1) / slices();
  }
  [[nodiscard]] int accumulate() const { return how_.accumulate; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::uint64_t seed() const { return how_.seed; }
  [[nodiscard]] normalisation norm() const { return norm_; }
  [[nodiscard]] const S& dataset() const { return dataset_; }

  [[nodiscard]] std::int64_t steps(double epochs) const { return plan_.steps(epochs); }
  [[nodiscard]] double epoch(std::int64_t step) const { return plan_.epoch(step); }

  /// The update that `next` will give.
  [[nodiscard]] std::int64_t step() const { return step_; }
  void seek(std::int64_t step) {
    expects(step >= 0, "loader: steps are counted from 0");
    step_ = step;
  }

  /// This rank's micro-batches of one update, in order; valid until the following call. What the
  /// data set threw comes out here.
  std::span<const batch<cpu>> next() {
    if (!worker_.joinable()) worker_ = start<&loader::serve>(*this);
    std::unique_lock lock(mutex_);
    const auto idle = [&] { return state_ != state::wanted; };
    changed_.wait(lock, idle);
    if (state_ == state::empty || back().step != step_) {
      request(step_);
      changed_.wait(lock, idle);
    }
    state_ = state::empty;
    if (back().failure) std::rethrow_exception(std::exchange(back().failure, nullptr));
    front_ = 1 - front_;
    request(++step_);
    return updates_[front_].micro.span();
  }

  [[nodiscard]] std::string describe() const {
    constexpr std::array ends{"the rest of an epoch is dropped",
                              "the last batch of an epoch is padded from its start",
                              "batches run on across epochs"};
    return text(grouped(plan_.samples), " samples of ", to_text(image()), " in ", classes(),
                " classes; global batch ", plan_.global_batch, " = ", per_rank(), " per rank x ",
                ranks_, " ranks x ", how_.accumulate, " micro-batches",
                plan_.global_batch % slices() == 0 ? "" : " (some have one sample fewer)", "; ",
                ends[static_cast<std::size_t>(how_.tail)], "; seed ", how_.seed);
  }

 private:
  struct update {
    std::int64_t step = -1;
    series<std::uint8_t> pixels;
    series<std::int32_t> labels;
    series<batch<cpu>> micro;
    std::exception_ptr failure;
  };
  // The back update belongs to the worker while it is wanted, and to the caller otherwise.
  enum class state { empty, wanted, full };

  [[nodiscard]] std::int64_t slices() const { return std::int64_t{ranks_} * how_.accumulate; }
  [[nodiscard]] update& back() { return updates_[1 - front_]; }

  void request(std::int64_t step) {
    back().step = step;
    back().failure = nullptr;
    state_ = state::wanted;
    changed_.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || state_ == state::wanted; });
      if (stop_) return;
      update& u = back();
      lock.unlock();
      try {
        fill(u);
      } catch (...) {
        u.failure = std::current_exception();
      }
      lock.lock();
      state_ = state::full;
      changed_.notify_all();
    }
  }

  // Only the worker runs this, and only it uses order_ and raw_.
  void fill(update& u) {
    const std::int64_t s = slices(), first_slice = std::int64_t{rank_} * how_.accumulate;
    const auto cut = [&](std::int64_t slice) { return plan_.global_batch * slice / s; };
    const std::int64_t first = cut(first_slice);
    const auto count = static_cast<std::size_t>(cut(first_slice + how_.accumulate) - first);
    const std::size_t image = dataset_.image().size();
    u.pixels.resize(count * image);
    u.labels.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const batch_plan::place p = plan_.at(u.step, first + static_cast<std::int64_t>(i));
      u.labels[i] = read(p, {u.pixels.data() + i * image, image});
    }
    u.micro.clear();
    for (std::int64_t k = first_slice; k < first_slice + how_.accumulate; ++k) {
      const auto begin = static_cast<std::size_t>(cut(k) - first);
      const auto n = static_cast<std::size_t>(cut(k + 1) - cut(k));
      u.micro.push_back({{u.pixels.data() + begin * image, n * image},
                         {u.labels.data() + begin, n},
                         static_cast<int>(n),
                         plan_.global_batch,
                         ranks_,
                         norm_});
    }
  }

  int read(const batch_plan::place& p, std::span<std::uint8_t> out) {
    if (p.epoch != order_epoch_ || order_.empty()) {
      order_ = order(how_.seed, p.epoch, dataset_.size());
      order_epoch_ = p.epoch;
    }
    const std::size_t sample = order_[static_cast<std::size_t>(p.index)];
    if (!augmentation_.active()) return dataset_.read(sample, out);
    raw_.resize(out.size());
    const int label = dataset_.read(sample, raw_.span());
    augmentation_(
        dataset_.image(), std::as_const(raw_).span(), out,
        random_sequence(how_.seed, purpose::augment, static_cast<std::uint64_t>(p.epoch), sample));
    return label;
  }

  S dataset_;
  A augmentation_;
  normalisation norm_;
  batching how_;
  int rank_, ranks_;
  batch_plan plan_;
  std::int64_t step_ = 0;

  std::vector<std::uint32_t> order_;
  std::int64_t order_epoch_ = -1;
  series<std::uint8_t> raw_;

  std::mutex mutex_;
  std::condition_variable changed_;
  state state_ = state::empty;
  bool stop_ = false;
  std::array<update, 2> updates_;
  std::size_t front_ = 0;
  std::thread worker_;
};

}  // namespace cordee::inline CORDEE_ABI
