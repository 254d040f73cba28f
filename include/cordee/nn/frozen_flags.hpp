// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which trainable segments of a network passes leave as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

class frozen_flags {
 public:
  /// Empty: none; otherwise a flag for each of `tensors` segments.
  [[gnu::cold, gnu::noinline]] void set(std::span<const std::uint8_t> flags, std::size_t tensors) {
    expects(flags.empty() || flags.size() == tensors,
            "network: freeze takes a flag for each trainable segment");
    flags_.resize(flags.size());
    for (std::size_t k = 0; k < flags.size(); ++k) flags_[k] = flags[k];
  }

  /// (trainable segments), or null: none is frozen.
  [[nodiscard]] const std::uint8_t* data() const {
    return flags_.empty() ? nullptr : flags_.data();
  }
  /// The first segment that is not frozen; their number if all are.
  [[nodiscard, gnu::cold, gnu::noinline]] std::size_t first_unfrozen() const {
    std::size_t first = 0;
    while (first < flags_.size() && flags_[first] != 0) ++first;
    return first;
  }
  /// Whether all segments of the table outside of this part of a plane are frozen, or have other
  /// places.
  template <class Part>
  [[nodiscard, gnu::cold]] bool covers(std::span<const segment> table, const Part& part) const {
    if (part.places != nullptr) return true;
    for (std::size_t k = 0; k < flags_.size(); ++k)
      if (flags_[k] == 0 && !part.has(table[k])) return false;
    return !flags_.empty();
  }

 private:
  core::pod_vector<std::uint8_t> flags_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
