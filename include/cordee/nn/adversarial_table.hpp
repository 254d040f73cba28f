// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a network with two sets of batch norms:
//
//   the network's trainable segments, where they are in its own table
//   "adversarial." and the name of each of its batch norms' scales and shifts
//   the network's running statistics, in their order
//   "adversarial." and the name of each of these
//
// A forward pass touches a plane's statistics alone, so the network finds the first ones in a plane
// that begins statistics_shift numbers later, and the second ones in one that begins
// adversarial_shift later.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

constexpr bool is_batch_norm(const segment& s) {
  return s.kind == kind::scale || s.kind == kind::shift;
}

template <class Net>
class adversarial_table {
  static constexpr std::span<const segment> own = Net::segments();
  static constexpr std::string_view prefix = "adversarial.";

 public:
  static constexpr std::size_t trainable = core::count_trainable(own),
                               statistics = own.size() - trainable;
  /// Number of the network's batch-norm segments.
  static constexpr std::size_t norms = [] {
    std::size_t n = 0;
    for (const segment& s : own.first(trainable)) n += is_batch_norm(s);
    return n;
  }();
  static constexpr std::size_t size = own.size() + norms + statistics;

 private:
  static constexpr std::size_t characters = [] {
    std::size_t n = 0;
    for (const segment& s : own)
      if (is_batch_norm(s) || s.kind == kind::statistic) n += prefix.size() + s.name.size();
    return n;
  }();
  static constexpr std::array<char, characters + 1> names = [] {
    std::array<char, characters + 1> all{};
    std::size_t end = 0;
    for (const segment& s : own)
      if (is_batch_norm(s) || s.kind == kind::statistic)
        for (const std::string_view part : {prefix, s.name})
          for (const char c : part) all[end++] = c;
    return all;
  }();

 public:
  /// Where the trainable numbers of the network end, and the sizes of its statistics and of the
  /// second batch norms.
  static constexpr std::size_t trainable_end = own[trainable].offset;
  static constexpr std::size_t statistics_size = Net::plane_size() - trainable_end;
  static constexpr std::size_t statistics_shift = [] {
    std::size_t n = 0;
    for (const segment& s : own.first(trainable))
      if (is_batch_norm(s)) n += core::align_up(s.size);
    return n;
  }();
  static constexpr std::size_t adversarial_shift = statistics_shift + statistics_size;
  static constexpr std::size_t plane_size = trainable_end + adversarial_shift + statistics_size;

  static constexpr std::array<segment, size> segments = [] {
    std::array<segment, size> all;
    std::size_t k = 0, name = 0, offset = trainable_end;
    const auto add = [&](segment s, std::size_t at, bool is_second) {
      s.offset = at;
      if (is_second) {
        const std::size_t length = prefix.size() + s.name.size();
        s.name = {names.data() + name, length};
        name += length;
      }
      all[k++] = s;
    };
    for (const segment& s : own.first(trainable)) add(s, s.offset, false);
    for (const segment& s : own.first(trainable)) {
      if (!is_batch_norm(s)) continue;
      add(s, offset, true);
      offset += core::align_up(s.size);
    }
    for (const segment& s : own.subspan(trainable)) add(s, s.offset + statistics_shift, false);
    for (const segment& s : own.subspan(trainable)) add(s, s.offset + adversarial_shift, true);
    return all;
  }();
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
