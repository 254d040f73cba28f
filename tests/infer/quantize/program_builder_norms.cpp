// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norms that are not folded beside the folded ones of the same network, for every sum that a
// convolution may have: where both are clipped, and what a shortcut brings back into the limits.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using support::random_plane;

namespace {

template <class N>
integer_program built(const std::vector<float>& plane, bool fold) {
  const layer_list list = list_layers(static_cast<const N*>(nullptr), fold);
  return program_builder(list, plane).build(N::input, {});
}

/// What was compared: outputs within the limits, of norms to bytes and to 32 bits, with a shortcut
/// and without.
struct unclipped_outputs {
  std::size_t bytes = 0, bytes_with_shortcut = 0, wide = 0, wide_with_shortcut = 0;
};

/// A channel of a norm, of convolution `of`, and of the folded convolution.
void check_channel(const integer_convolution& of, const integer_batch_norm& n,
                   const integer_convolution& folded, std::size_t k, bool adds,
                   std::size_t& inside) {
  const std::size_t each = of.weights.size() / of.bias.size();
  std::int64_t most = 0;  // of the sums, whose sign a negative factor turns in the folded form
  for (std::size_t i = 0; i < each; ++i) most += 255 * std::abs(of.weights[k * each + i]);
  const int sign = n.multiplier[k] < 0 ? -1 : 1;
  // Half a step of what the norm reads, and the roundings of either form.
  const double tolerance =
      std::abs(std::ldexp(static_cast<double>(n.multiplier[k]), -n.shift)) / 2 +
      std::ldexp(static_cast<double>(most), -28) + 2;
  constexpr int points = 300;
  std::size_t far = 0;
  for (int r = adds ? -8 : 0; r <= (adds ? 8 : 0); ++r) {
    const std::int64_t added =
        detail::ops::rescaled(std::int64_t{r} * (wide_limit / 8), n.residual_factor);
    for (int i = -points; i <= points; ++i) {
      const std::int64_t sum = most * i / points,
                         y = n.output(k, of.output(k, sum, std::int64_t{0}), added),
                         wanted = folded.output(k, sign * sum, added);
      far += std::abs(static_cast<double>(y - wanted)) > tolerance ? 1 : 0;
      inside += wanted > n.low && wanted < n.high ? 1 : 0;
    }
  }
  CHECK(far == 0);
}
template <class N>
unclipped_outputs check_norms(const std::vector<float>& plane) {
  const integer_program own = built<N>(plane, false), folded = built<N>(plane, true);
  const auto folded_named = [&](const std::string& name) -> const integer_convolution& {
    for (const integer_step& s : folded.steps)
      if (s.name == name) return std::get<integer_convolution>(s.layer);
    throw error("no such layer");
  };
  unclipped_outputs count;
  for (const integer_step& s : own.steps) {
    const auto* const n = std::get_if<integer_batch_norm>(&s.layer);
    if (n == nullptr) continue;
    const bool adds = s.residual >= 0;
    const integer_step& input = own.steps[static_cast<std::size_t>(s.input)];
    const auto& of = std::get<integer_convolution>(input.layer);
    const integer_convolution& beside = folded_named(input.name);
    std::size_t& inside = s.bytes == 1 ? adds ? count.bytes_with_shortcut : count.bytes
                          : adds       ? count.wide_with_shortcut
                                       : count.wide;
    INFO(s.name);
    CHECK(n->low == beside.low);
    CHECK(n->high == beside.high);
    for (std::size_t k = 0; k < n->multiplier.size(); ++k)
      check_channel(of, *n, beside, k, adds, inside);
  }
  return count;
}
/// Ranges of so large a part of the random ones: small ones clip most outputs.
template <class N>
std::vector<float> plane_with_ranges(std::uint64_t seed, float part) {
  auto plane = random_plane<N>(seed);
  for (const segment& s : N::segments())
    if (s.name.ends_with("input_max") && s.name != "conv1.input_max") plane[s.offset] *= part;
  return plane;
}

constexpr extent image{3, 8, 8};
/// A sum whose bytes one convolution reads.
using to_bytes =
    network<sequential<convolution<24>, batch_norm<relu>,
                       residual<sequential<convolution<24>, batch_norm<relu>, convolution<16>>,
                                batch_norm<identity>, projection<16, 1>>,
                       convolution<5>, global_average_pool, linear<2>>,
            int8, cpu, direct, image, 2>;
using two_blocks = resnet<14, int8, cpu, resnet_options{.image = {3, 10, 9}, .zero_gamma = false}>;

}  // namespace

TEST_CASE("batch norms of their own: the folded outputs, at every sum and with every shortcut") {
  unclipped_outputs all;
  for (const float part : {1.0F, 0.3F, 0.1F, 0.03F})
    for (const std::uint64_t seed : {1u, 2u}) {
      for (const unclipped_outputs& of :
           {check_norms<to_bytes>(plane_with_ranges<to_bytes>(seed, part)),
            check_norms<two_blocks>(plane_with_ranges<two_blocks>(seed, part))}) {
        all.bytes += of.bytes;
        all.bytes_with_shortcut += of.bytes_with_shortcut;
        all.wide += of.wide;
        all.wide_with_shortcut += of.wide_with_shortcut;
      }
    }
  CHECK(all.bytes > 10'000);
  CHECK(all.bytes_with_shortcut > 10'000);
  CHECK(all.wide > 10'000);
  CHECK(all.wide_with_shortcut > 10'000);
}
