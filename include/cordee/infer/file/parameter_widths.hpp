// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The bits of a layer's numbers in a file (infer/file/program_file.hpp), the fewest that hold all
// channels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <cordee/infer/file/packed_bits.hpp>
#include <cordee/infer/program/integer_layers.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Bits of the shifts of a convolution without biases whose factors are powers of two, as before an
/// unfolded batch norm; 0 for any other.
inline int shift_width(const integer_convolution& c) {
  int bits = 1;
  for (std::size_t k = 0; k < c.factors.size(); ++k) {
    if (c.bias[k] != 0 || c.factors[k].multiplier != 1 << 30) return 0;
    bits = std::max(bits, signed_width(c.factors[k].shift));
  }
  return bits;
}

/// An addend is a number of `addend` bits times 2^z, z a number of `zeros` bits of its channel.
struct norm_widths {
  int multiplier = 1, addend = 1, zeros = 0;

  /// A larger `addend` would leave fewer zeros to count, but not a smaller sum of the two.
  explicit norm_widths(const integer_batch_norm& n) {
    int widest = 1;
    for (const std::int64_t k : n.multiplier) multiplier = std::max(multiplier, signed_width(k));
    for (const std::int64_t b : n.addend) {
      widest = std::max(widest, signed_width(b));
      if (b != 0)
        addend =
            std::max(addend, signed_width(b) - std::countr_zero(static_cast<std::uint64_t>(b)));
    }
    zeros = static_cast<int>(std::bit_width(static_cast<unsigned>(widest - addend)));
  }
  /// z, the fewest.
  [[nodiscard]] std::uint8_t zeros_of(std::int64_t b) const {
    return static_cast<std::uint8_t>(std::max(signed_width(b) - addend, 0));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
