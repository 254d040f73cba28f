// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A thread's walk through the K of an implicit GEMM: the channels of a tap, then the next tap.
#pragma once

#include <algorithm>

#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// With OneTap, requires g.has_one_tap().
template <bool OneTap>
class tap_walk {
 public:
  CORDEE_DEVICE explicit tap_walk(const implicit_gemm& g)
      : channels_(g.channels),
        across_(g.across.taps),
        a_next_column_((g.across.direction - 1) * g.channels),
        a_next_row_((g.down.direction * g.across.in - g.across.direction * g.across.taps) *
                    g.channels),
        b_next_column_((g.across.tap_step - 1) * g.channels),
        b_next_row_((g.down.tap_step * g.window - g.across.tap_step * g.across.taps) * g.channels) {
  }

  /// Distances, in numbers, from one position's pixel and weight to another's.
  struct distance {
    int a, b;
  };
  CORDEE_DEVICE distance advance(int by) {
    distance d{by, by};
    channel_ += by;
    if constexpr (!OneTap) {
      if (channel_ < channels_) return d;
      do {
        channel_ -= channels_;
        d.a += a_next_column_;
        d.b += b_next_column_;
        if (++v_ == across_) {
          v_ = 0;
          ++u_;
          d.a += a_next_row_;
          d.b += b_next_row_;
        }
      } while (channel_ >= channels_);
      tap_ = bits_of(u_ < max_taps ? u_ : max_taps, v_);
    }
    return d;
  }

  /// The positions at which a pixel, or a filter, is read.
  using mask = int;
  /// Taps u in [u_begin, u_end), v in [v_begin, v_end), all channels.
  [[nodiscard]] CORDEE_DEVICE mask mask_of(int u_begin, int u_end, int v_begin, int v_end) const {
    if constexpr (OneTap)
      return u_begin <= 0 && u_end > 0 && v_begin <= 0 && v_end > 0 ? channels_ : 0;
    else
      return range(u_begin, u_end) | range(v_begin, v_end) << 16;
  }
  [[nodiscard]] CORDEE_DEVICE bool is_in(mask m) const {
    if constexpr (OneTap)
      return channel_ < m;
    else
      return (tap_ & ~m) == 0;
  }
  [[nodiscard]] CORDEE_DEVICE int channel() const { return channel_; }

 private:
  CORDEE_DEVICE static int bits_of(int u, int v) { return 1 << u | 0x10000 << v; }
  /// Bits begin to end - 1 of the taps.
  CORDEE_DEVICE static int range(int begin, int end) {
    begin = std::clamp(begin, 0, int{max_taps});
    end = std::clamp(end, begin, int{max_taps});
    return (1 << end) - (1 << begin);
  }

  int channels_, across_, a_next_column_, a_next_row_, b_next_column_, b_next_row_;
  int channel_ = 0, u_ = 0, v_ = 0;
  int tap_ = bits_of(0, 0);  // bit max_taps is in no mask
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
