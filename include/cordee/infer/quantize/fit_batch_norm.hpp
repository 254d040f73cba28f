// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The integer form of a batch norm that is not folded (after Lin et al., 2020): of the real k and b
// of each channel, exact for every input, and with one shift L for all channels.
//
//   floor(k x + b + 1/2) = (K x + B) >> L
//
// B is the number of its interval that ends in the most zeros, which a file does not store.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/integer_batch_norm.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// K, B and L; other members remain to be set. Empty where no shift makes sums of 64 bits exact, or
/// a number is not finite.
inline std::optional<integer_batch_norm> fit_batch_norm(std::span<const double> k,
                                                        std::span<const double> b,
                                                        ops::integer_range in) {
  expects(in.low >= -norm_limit && in.high <= norm_limit, "infer: a batch norm reads 18 bits");
  double bound = 1;  // of |k x| + |b|
  for (std::size_t c = 0; c < k.size(); ++c) {
    const double of_channel = norm_limit * std::abs(k[c]) + std::abs(b[c]);
    if (!(of_channel < 0x1p30)) return std::nullopt;  // nor is NaN
    bound = std::max(bound, of_channel);
  }
  const int most = 60 - std::ilogb(bound);  // 2^61 > bound 2^L, and B is less than 2^(L + 1) off
  integer_batch_norm out;
  std::vector<ops::integer_affine> channels;
  for (std::size_t c = 0; c < k.size(); ++c) {
    const auto fitted = ops::fit_integer_affine(k[c], b[c], in, most);
    if (!fitted) return std::nullopt;
    channels.push_back(*fitted);
    out.shift = std::max(out.shift, fitted->shift);
  }
  for (const ops::integer_affine& channel : channels) {
    const ops::integer_affine shared = channel.with_shift(out.shift);
    out.multiplier.push_back(shared.multiplier);
    out.addend.push_back(ops::with_most_zeros(shared.low, shared.high));
  }
  return out;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
