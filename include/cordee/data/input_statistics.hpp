// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How long the stages of the input took, and how long training waited for them.
//
//   read -> decode -> resample -> augment     loader threads, which run ahead
//   -> upload                                 the training thread copies the update's bytes to
//                                             pinned memory, and from there to the GPU's
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Times of a loader since its construction; `reading` is the sum over all copies of its data set.
struct input_statistics {
  /// Seconds that threads spent in the stages inside a data set, summed.
  struct reading_seconds {
    double read = 0;      ///< Reading encoded bytes, from a file or from memory.
    double decode = 0;    ///< Decoding to pixels.
    double resample = 0;  ///< Resampling to the size of the batch.
  };

  /// Updates returned by next(), and samples made, including those of prefetched updates.
  std::int64_t updates = 0, samples = 0;
  int threads = 1;     ///< Threads that read and augment.
  double elapsed = 0;  ///< Seconds from the first call of next() to the last return.
  double waited = 0;   ///< Seconds of `elapsed` inside next().
  double busy = 0;     ///< Seconds of reading and augmenting, over all threads.
  double augment = 0;  ///< Seconds of `busy` spent in augmentation.
  /// Seconds of copies to the device in fit; 0 on the CPU, which needs none.
  double upload = 0;
  reading_seconds reading;  ///< Times inside the data set; 0 if not measured.

  /// "waited 1.2 of 10.3 s ...": whether training waits for its data, and which stage is longest.
  /// A template, so that programs that do not call it do not compile it.
  template <class Statistics = input_statistics>
  [[nodiscard]] std::string describe() const {
    const Statistics& s = *this;
    const double inside = s.reading.read + s.reading.decode + s.reading.resample;
    const std::array<std::string_view, 4> names{"read", "decode", "resample", "augment"};
    // `reading` may be of other loaders, too; so it only divides this loader's seconds.
    const double known = inside > 0 ? (s.busy - s.augment) / inside : 0;
    const std::array<double, 4> seconds{s.reading.read * known, s.reading.decode * known,
                                        s.reading.resample * known, augment};
    const auto percent = [](double part, double of) {
      return static_cast<int>(of > 0 ? 100 * part / of + 0.5 : 0);
    };
    std::string stages;
    if (inside > 0)
      for (std::size_t k = 0; k < names.size(); ++k)
        stages += concat(k == 0 ? ": " : ", ", names[k], " ", percent(seconds[k], s.busy), " %");
    std::size_t longest = 0;
    for (std::size_t k = 1; k < seconds.size(); ++k)
      if (seconds[longest] < seconds[k]) longest = k;
    const bool late = s.waited > 0.05 * s.elapsed;
    // An update is copied while the one before trains, so copies last as long as training at most.
    const bool late_upload = s.upload > 0.9 * s.elapsed;
    if (s.upload > 0) stages += concat("; upload busy ", percent(s.upload, s.elapsed), " %");
    return concat("waited for data ", percent(s.waited, s.elapsed), " % of the time (",
                  hundredths(s.waited), " of ", hundredths(s.elapsed), " s, ", s.updates,
                  " updates); ", s.threads, s.threads == 1 ? " thread" : " threads", " busy ",
                  percent(s.busy, s.elapsed * s.threads), " %", stages,
                  late_upload  ? "; late: upload"
                  : !late      ? "; the data keep up"
                  : inside > 0 ? concat("; late: ", names[static_cast<std::size_t>(longest)])
                  : s.augment > s.busy / 2 ? std::string("; late: augment")
                                           : std::string("; late: reading"));
  }

 private:
  static double hundredths(double seconds) {
    return static_cast<double>(static_cast<std::int64_t>(seconds * 100 + 0.5)) / 100;
  }
};

}  // namespace cordee::inline CORDEE_ABI
