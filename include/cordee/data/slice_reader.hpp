// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A slice of a data set in the order of its indices, once, in batches: while the caller uses one,
// several threads read the next. For evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/prefetcher.hpp>
#include <cordee/data/sample_threads.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

template <Dataset S>
class slice_reader {
 public:
  /// Reads samples first .. last - 1 of `dataset`, which must outlive the reader. `threads` is as
  /// loader_options::decode_threads. Requires first <= last <= dataset.size() and batch_size > 0.
  [[gnu::cold]] slice_reader(const S& dataset, std::size_t first, std::size_t last, int batch_size,
                             const normalization& norm, int threads)
      : dataset_(dataset),
        first_(first),
        last_(last),
        batch_size_(static_cast<std::size_t>(batch_size)),
        norm_(norm),
        threads_(count_sample_threads(threads, DrawnAtRandom<S>)),
        prefetcher_(this, read_batch) {}
  slice_reader(const slice_reader&) = delete;
  slice_reader& operator=(const slice_reader&) = delete;

  [[nodiscard]] int threads() const { return threads_.size(); }

  /// The next batch, alone in the span and valid until the next call; no batch after the last.
  /// Throws what the data set threw for the first such sample of the batch.
  [[gnu::cold]] std::span<const batch<cpu>> next() {
    if (begin_of(step_) == last_) return {};
    return prefetcher_.take(step_++).micro.span();
  }

 private:
  [[nodiscard]] std::size_t begin_of(std::int64_t step) const {
    return std::min(last_, first_ + static_cast<std::size_t>(step) * batch_size_);
  }

  // Runs on the prefetcher's thread, also for the step after the last.
  static void read_batch(void* self, rank_update& u) { static_cast<slice_reader*>(self)->read(u); }
  [[gnu::cold]] void read(rank_update& u) {
    begin_ = begin_of(u.step);
    const std::size_t count = begin_of(u.step + 1) - begin_, image = dataset_.image().size();
    u.pixels.resize(count * image);  // (count, channels, height, width)
    u.labels.resize(count);
    current_ = &u;
    threads_.run(count, read_sample, this);
    u.micro.clear();
    u.micro.push_back({{u.pixels.data(), count * image},
                       {u.labels.data(), count},
                       static_cast<int>(count),
                       static_cast<std::int64_t>(count),
                       1,
                       norm_});
  }

  // Runs on several threads.
  static void read_sample(void* self, std::size_t i, int) {
    const auto& reader = *static_cast<const slice_reader*>(self);
    rank_update& u = *reader.current_;
    const std::size_t image = reader.dataset_.image().size();
    u.labels[i] = reader.dataset_.read(reader.begin_ + i, {u.pixels.data() + i * image, image});
  }

  const S& dataset_;
  std::size_t first_, last_, batch_size_;
  normalization norm_;
  std::int64_t step_ = 0;  // of the next batch
  std::size_t begin_ = 0;  // of the batch that threads_ read into current_
  rank_update* current_ = nullptr;
  sample_threads threads_;
  prefetcher prefetcher_;  // last: its thread uses the others
};

}  // namespace cordee::inline CORDEE_ABI::detail::data
