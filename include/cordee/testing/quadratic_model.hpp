// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest model for a trainer, without data or layers: f(w) = |w - c|^2 / 2.
//
// Its table has the edge cases of optimizers: a segment of several chunks, an empty one, one of a
// single number, every kind, and weights that start at zero.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/testing/gradient.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {
constexpr std::array<segment, 8> with_offsets(std::array<segment, 8> table) {
  std::size_t offset = 0;
  for (segment& s : table) {
    s.offset = offset;
    offset += detail::core::align_up(s.size);
  }
  return table;
}
}  // namespace detail::testing

/// The model's parameters. Sizes are not multiples of chunks or of the alignment. The statistic
/// counts forward passes.
inline constexpr std::array<segment, 8> quadratic_table = detail::testing::with_offsets(
    {segment{"stem", kind::weight, 0, 33'003}, segment{"scale", kind::scale, 0, 5},
     segment{"shift", kind::shift, 0, 65}, segment{"none", kind::weight, 0, 0},
     segment{"one", kind::weight, 0, 1}, segment{"zero", kind::weight, 0, 130},
     segment{"bias", kind::bias, 0, 3}, segment{"passes", kind::statistic, 0, 1}});

/// The model in precision P.
template <class P>
struct quadratic_model {
  using precision = P;                          ///< Precision of weights and gradients.
  using device = cpu;                           ///< Always the CPU.
  using Real = typename P::master;              ///< Type of weights and gradients.
  using packed_parameters = buffer<Real, cpu>;  ///< A copy of the plane.
  static constexpr extent input{1, 1, 1};       ///< Unused: there are no images.
  static constexpr int classes = 1;             ///< Unused: there are no classes.

  bool inject_nan = false;   ///< Whether a gradient has a NaN, in segment "one".
  std::int64_t samples = 0;  ///< Samples of the last batch.
  /// Factor of w - c in the gradient: the last batch's, of all its samples.
  double loss_weight = 0;

  /// `quadratic_table`.
  static constexpr std::span<const segment> segments() { return quadratic_table; }
  /// A CPU with one worker.
  [[nodiscard]] cpu get_device() const { return cpu{1}; }

  /// Writes normal numbers; leaves segment "zero" and the statistic at 0.
  void initialize(span_on<Real, cpu> plane, std::uint64_t seed) const {
    for (const segment& s : segments())
      if (s.name != "zero" && s.kind != kind::statistic)
        fill(plane.subspan(s.offset, s.size), seed + s.offset);
  }
  /// See Model.
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(cpu{1},
                             quadratic_table.back().offset + detail::core::segment_alignment);
  }
  /// Copies the plane.
  void pack_parameters(span_on<Real, cpu> plane, packed_parameters& to, cpu::stream) const {
    for (std::size_t i = 0; i < plane.size; ++i) to.span()[i] = plane[i];
  }
  /// Adds 1 to the statistic in training.
  void forward(const packed_parameters&, span_on<Real, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream) {
    if (p == phase::train) plane[quadratic_table.back().offset] += 1;
    samples = b.count;
    loss_weight = b.count == 0 ? 0 : b.loss_weight() * b.count;
  }
  /// Adds loss_weight (w - c) to the gradient, in either mode.
  template <class Ready>
  void backward(const packed_parameters& w, span_on<Real, cpu> grads, write_mode, Ready&& ready,
                cpu::stream) const {
    for (std::size_t k = detail::core::count_trainable(segments()); k-- > 0;) {
      for (std::size_t i = quadratic_table[k].offset; i < quadratic_table[k].end(); ++i)
        grads[i] += static_cast<Real>(loss_weight) * (w.span()[i] - center(i));
      if (inject_nan && quadratic_table[k].name == "one")
        grads[quadratic_table[k].offset] = std::numeric_limits<Real>::quiet_NaN();
      ready(k);
    }
  }
  /// Only the samples; their loss is 0.
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {0, 0, 0, samples}; }

  /// c, the minimum of f.
  static constexpr Real center(std::size_t i) { return static_cast<Real>(i % 7) / 8; }

 private:
  static void fill(span_on<Real, cpu> x, std::uint64_t seed) {
    const auto numbers = normal_numbers<Real>(x.size, seed);
    std::copy(numbers.begin(), numbers.end(), x.begin());
  }
};

}  // namespace cordee::inline CORDEE_ABI
