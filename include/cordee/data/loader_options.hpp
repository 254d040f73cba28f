// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Samples per update and updates per epoch: N samples, B per update, E epochs.
//
//   updates    drop  E floor(N / B)      pad  E ceil(N / B)      carry  ceil(E N / B)
//
// Published large-batch runs count their steps as `pad` or as `carry` does.
#pragma once

#include <cstdint>
#include <string_view>

#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/io/host_memory.hpp>

namespace cordee::inline CORDEE_ABI {

/// What happens at the end of an epoch if the batch does not divide the data set. An enum, not a
/// type as algorithms are: it selects arithmetic on three integers and no code.
enum class last_batch {
  drop,  ///< The remaining samples are dropped, different ones in each epoch.
  pad,   ///< The last batch is completed from the start of the same permutation.
  carry  ///< The last batch is completed from the next epoch: no sample is left out or repeated.
};

/// How a loader batches a data set: global batch = micro-batch x ranks x accumulate.
struct loader_options {
  /// Samples of an update over all ranks; 0: derived from `micro_batch`. Unit: samples. Range: this
  /// or `micro_batch` above 0, the other 0; at most 2^31 - 1, else usage_error.
  std::int64_t global_batch = 0;
  /// Samples of a micro-batch on one rank; 0: derived from `global_batch`. Unit: samples. Range:
  /// this or `global_batch` above 0, the other 0, and an update of at most 2^31 - 1, else
  /// usage_error.
  std::int64_t micro_batch = 0;
  /// Gradient accumulation: micro-batches per update on one rank. Range: 1 or more, else
  /// usage_error.
  int accumulate = 1;
  /// Seed of the sample order and of everything drawn for samples. Range: any.
  std::uint64_t seed = 0;
  /// What completes the last batch of an epoch. Default: every epoch has each sample once, and
  /// every update equally many samples.
  cordee::last_batch last_batch = cordee::last_batch::carry;
  /// Threads that read and augment samples; results do not depend on them. Range: 0 to 1024, else
  /// usage_error. Default: for a data set that draws its samples at random, as decoded images do,
  /// the cores of this process divided by its ranks; for others one thread.
  int decode_threads = 0;
  /// Updates that threads may run ahead; samples do not depend on it. Range: 0 to 7, else
  /// usage_error. Default: for a data set that draws its samples at random 2, for others 1.
  int prefetch = 0;
  /// Multiples of the global batch from given epochs on. Range: epochs above 0 and in order, whole
  /// ones with drop and pad, factors of 1 or more, else usage_error.
  cordee::batch_schedule batch_schedule{};
  /// Whether a stage multiplies the samples of each micro-batch instead of their number, which also
  /// changes batch-norm statistics and memory.
  bool grow_micro_batch = false;
};

namespace detail::data {

/// What happens at the end of an epoch.
[[gnu::cold]] constexpr std::string_view describe(last_batch end) {
  return end == last_batch::drop  ? "the last samples of an epoch are dropped"
         : end == last_batch::pad ? "the last batch of an epoch is padded from its start"
                                  : "batches continue across epochs";
}

/// Limits a global batch, and micro-batches over all ranks, so that their products fit 64 bits.
inline constexpr std::int64_t largest_batch = core::limits<std::int32_t>::max();

/// The global batch of so many ranks. Throws usage_error if it, or the number of its micro-batches,
/// is too large.
[[gnu::cold]] inline std::int64_t checked_global_batch(const loader_options& o, int ranks) {
  const std::int64_t slices = std::int64_t{ranks} * o.accumulate;
  if (slices > largest_batch || o.global_batch > largest_batch ||
      o.micro_batch > largest_batch / slices)
    throw usage_error(concat("loader: ", o.global_batch > 0 ? "a global batch of " : "",
                             o.global_batch > 0 ? o.global_batch : o.micro_batch,
                             o.global_batch > 0 ? " in " : " samples per micro-batch x ", ranks,
                             " ranks x ", o.accumulate, " micro-batches: at most ", largest_batch,
                             " samples make one update"));
  return o.global_batch > 0 ? o.global_batch : o.micro_batch * slices;
}

/// Throws usage_error if what a rank holds of its updates, of so many samples in so many
/// micro-batches each, is more than the memory of the host: the system would kill the process.
[[gnu::cold]] inline void expect_room(std::int64_t samples, std::int64_t micro_batches, int updates,
                                      std::size_t image_bytes) {
  constexpr double label_bytes = 4, micro_batch_bytes = 128;
  const double bytes = updates * (static_cast<double>(samples) *
                                      (static_cast<double>(image_bytes) + label_bytes) +
                                  static_cast<double>(micro_batches) * micro_batch_bytes),
               memory = static_cast<double>(io::memory_bytes());
  if (bytes > memory)
    throw usage_error(concat("loader: ", updates, " updates at a time of ", samples, " samples in ",
                             micro_batches, " micro-batches take ", bytes / 1e9,
                             " GB on a rank, and this host has ", memory / 1e9,
                             " GB: lower .global_batch, .micro_batch, .accumulate or .prefetch"));
}

/// The arithmetic of updates and epochs. Requires that `samples` and `global_batch` are positive,
/// `samples` less than 2^32, `global_batch` at most largest_batch.
struct batch_plan {
  std::int64_t samples = 0, global_batch = 0;
  cordee::last_batch last_batch = cordee::last_batch::carry;

  /// A sample: its epoch and its index in that epoch's permutation.
  struct position {
    std::int64_t epoch, index;
  };

  /// Requires drop or pad, where an epoch is a whole number of updates.
  [[nodiscard]] std::int64_t steps_per_epoch() const {
    return last_batch == last_batch::drop ? samples / global_batch
                                          : (samples + global_batch - 1) / global_batch;
  }
  /// Updates that can be counted: a double has their number, 64 bits that of their samples.
  [[nodiscard]] std::int64_t most_steps() const {
    constexpr std::int64_t exact = std::int64_t{1} << 53;
    return std::min(exact, core::limits<std::int64_t>::max() / global_batch - 2);
  }
  /// Updates of so many epochs, rounded up. Throws usage_error for a negative number, NaN,
  /// infinity, and for more than most_steps().
  [[nodiscard]] std::int64_t steps(double epochs) const {
    const double exact =
        last_batch == last_batch::carry
            ? epochs * static_cast<double>(samples) / static_cast<double>(global_batch)
            : epochs * static_cast<double>(steps_per_epoch());
    // 0.1 of 30 updates are 3, although the double 0.1 is more than a tenth.
    const double rounded = core::ceil(exact * (1 - 1e-12));
    if (!(epochs >= 0 && rounded <= static_cast<double>(most_steps()))) refuse_epochs(epochs);
    return static_cast<std::int64_t>(rounded);
  }
  /// Epochs of data seen before update `step`.
  [[nodiscard]] double epoch(std::int64_t step) const {
    return last_batch == last_batch::carry
               ? static_cast<double>(step) * static_cast<double>(global_batch) /
                     static_cast<double>(samples)
               : static_cast<double>(step) / static_cast<double>(steps_per_epoch());
  }
  /// Sample j of update `step`, which is at most most_steps().
  [[nodiscard]] position sample(std::int64_t step, std::int64_t j) const {
    if (last_batch == last_batch::carry) {
      const std::int64_t g = step * global_batch + j;
      return {g / samples, g % samples};
    }
    const std::int64_t n = steps_per_epoch();
    return {step / n, (step % n * global_batch + j) % samples};
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse_epochs(double epochs) const {
    throw usage_error(concat("loader: a run of ", epochs, " epochs: expected a number from 0 on ",
                             "that makes at most ", most_steps(), " updates"));
  }
};

}  // namespace detail::data

}  // namespace cordee::inline CORDEE_ABI
