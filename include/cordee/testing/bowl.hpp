// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest model that the trainer takes: f(w) = |w - c|^2 / 2, without data or layers.
//
// Its table has what rules stumble over: a segment of several chunks, an empty one, a single
// number, every kind, and a weight that starts at zero.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/testing/gradient.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
constexpr std::array<segment, 8> lay_out(std::array<segment, 8> table) {
  std::size_t offset = 0;
  for (segment& s : table) {
    s.offset = offset;
    offset += aligned(s.size);
  }
  return table;
}
}  // namespace detail

/// Sizes off the grid of chunks and of alignment. The statistic counts forward passes.
inline constexpr std::array<segment, 8> bowl_table =
    detail::lay_out({segment{"stem", kind::weight, 0, 33'003}, segment{"scale", kind::scale, 0, 5},
                     segment{"shift", kind::shift, 0, 65}, segment{"none", kind::weight, 0, 0},
                     segment{"one", kind::weight, 0, 1}, segment{"zero", kind::weight, 0, 130},
                     segment{"bias", kind::bias, 0, 3}, segment{"seen", kind::statistic, 0, 1}});

template <class P>
struct bowl {
  using precision = P;
  using device = cpu;
  using Real = typename P::master;
  using image = buffer<Real, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  bool poisoned = false;  // the next gradients hold one value that is not a number
  std::int64_t samples = 0;
  double seed = 0;

  static constexpr std::span<const segment> segments() { return bowl_table; }
  [[nodiscard]] cpu where() const { return cpu{1}; }

  void initialise(span_on<Real, cpu> plane, std::uint64_t number) const {
    for (const segment& s : segments())
      if (s.name != "zero" && s.what != kind::statistic)
        fill(plane.subspan(s.offset, s.size), number + s.offset);
  }
  [[nodiscard]] image make_image() const {
    return image(cpu{1}, bowl_table.back().offset + segment_alignment);
  }
  void publish(span_on<Real, cpu> plane, image& to, cpu::stream) const {
    for (std::size_t i = 0; i < plane.size; ++i) to.span()[i] = plane[i];
  }
  void forward(const image&, span_on<Real, cpu> plane, const batch<cpu>& b, phase p, cpu::stream) {
    if (p == phase::train) plane[bowl_table.back().offset] += 1;
    samples = b.count;
    seed = b.count == 0 ? 0 : b.seed() * b.count;
  }
  template <class Ready>
  void backward(const image& w, span_on<Real, cpu> grads, into, Ready&& ready, cpu::stream) const {
    for (std::size_t k = count_trainable(segments()); k-- > 0;) {
      for (std::size_t i = bowl_table[k].offset; i < bowl_table[k].end(); ++i)
        grads[i] += static_cast<Real>(seed) * (w.span()[i] - centre(i));
      if (poisoned && bowl_table[k].name == "one")
        grads[bowl_table[k].offset] = std::numeric_limits<Real>::quiet_NaN();
      ready(k);
    }
  }
  [[nodiscard]] score read_score(cpu::stream) const { return {0, 0, 0, samples}; }

  /// Where the bottom is.
  static constexpr Real centre(std::size_t i) { return static_cast<Real>(i % 7) / 8; }

 private:
  static void fill(span_on<Real, cpu> x, std::uint64_t number) {
    const auto numbers = normal_numbers<Real>(x.size, number);
    std::copy(numbers.begin(), numbers.end(), x.begin());
  }
};

}  // namespace cordee::inline CORDEE_ABI
