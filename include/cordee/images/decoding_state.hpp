// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the copies of a decoded data set share: buffers, seconds, and the broken images.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/clock.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/data/input_statistics.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/reason_counts.hpp>
#include <cordee/images/resize.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// What one thread needs to make samples.
struct decoding_buffers {
  explicit decoding_buffers(std::uint64_t most_pixels) : decode(most_pixels) {}

  std::vector<std::uint8_t> file;
  decoder decode;
  core::pod_vector<std::uint8_t> rgb;
  resizer resize;
};

/// Shared by the copies of a data set: buffers, as many as threads read concurrently; seconds; and
/// the broken images.
class decoding_state {
 public:
  explicit decoding_state(std::uint64_t most_pixels) : most_pixels_(most_pixels) {}
  decoding_state(const decoding_state&) = delete;
  decoding_state& operator=(const decoding_state&) = delete;
  ~decoding_state() {
    if (broken_.empty()) return;
    try {
      std::fprintf(stderr, "decoded_images: %s\n", describe_broken().c_str());
    } catch (const std::exception&) {  // no memory for the sentence
    }
  }

  [[nodiscard]] std::unique_ptr<decoding_buffers> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto buffers = std::move(idle_.back());
        idle_.pop_back();
        return buffers;
      }
    }
    return std::make_unique<decoding_buffers>(most_pixels_);
  }
  void give_back(std::unique_ptr<decoding_buffers> buffers) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffers));
  }

  void record_broken(std::size_t i, const std::string& name, const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (!broken_.try_emplace(i, message).second) return;
    const bool is_named = message.starts_with(concat(name, ": "));
    reasons_.add(is_named ? message.substr(name.size() + 2) : message, name);
    if (broken_.size() == 1)
      std::fprintf(stderr,
                   "decoded_images: %s; the next readable image takes its place, as for all that "
                   "are broken\n",
                   message.c_str());
  }
  [[nodiscard]] std::map<std::size_t, std::string> broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
  }
  /// Empty if none was broken.
  [[nodiscard]] std::string describe_broken() const {
    const std::lock_guard lock(mutex_);
    return broken_.empty()
               ? std::string()
               : concat(broken_.size(),
                        " broken images were replaced by the next: ", reasons_.describe());
  }

  using clock = std::chrono::steady_clock;
  void add(clock::time_point begin, clock::time_point read, clock::time_point decoded,
           clock::time_point resized) {
    add(read_, begin, read);
    add(decode_, read, decoded);
    add(resample_, decoded, resized);
  }
  [[nodiscard]] input_statistics::reading_seconds seconds() const {
    const auto of = [](const std::atomic<std::int64_t>& nanoseconds) {
      return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
    };
    return {of(read_), of(decode_), of(resample_)};
  }

 private:
  static void add(std::atomic<std::int64_t>& sum, clock::time_point begin, clock::time_point end) {
    sum.fetch_add(std::chrono::nanoseconds(end - begin).count(), std::memory_order_relaxed);
  }

  std::uint64_t most_pixels_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<decoding_buffers>> idle_;
  std::map<std::size_t, std::string> broken_;
  reason_counts reasons_;  // of these
  std::atomic<std::int64_t> read_{0}, decode_{0}, resample_{0};
};

/// Borrows buffers for a scope.
class borrowed_buffers {
 public:
  explicit borrowed_buffers(decoding_state& state) : state_(state), buffers_(state.take()) {}
  borrowed_buffers(const borrowed_buffers&) = delete;
  borrowed_buffers& operator=(const borrowed_buffers&) = delete;
  ~borrowed_buffers() { state_.give_back(std::move(buffers_)); }

  decoding_buffers& operator*() const { return *buffers_; }

 private:
  decoding_state& state_;
  std::unique_ptr<decoding_buffers> buffers_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
