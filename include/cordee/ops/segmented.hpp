// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over a table of segments: the fused update of a rule, and norms per segment. What a pass
// does is a small struct of annotated functions, the same on every device:
//
//   template <class Real>
//   struct descent {  // w <- w - rate g, biases at twice the rate
//     Real* w;
//     const Real* g;
//     Real rate;
//     CORDEE_HOST_DEVICE descent of(kind what, std::size_t) const {
//       return {w, g, what == kind::bias ? 2 * rate : rate};
//     }
//     template <class At>
//     constexpr void operator()(At at) const { at.put(w, at(w) - rate * at(g)); }
//   };
//   segmented_for<Real>(s, v.segments, descent<Real>{v.weights.data, v.grads.data, rate});
//
// `of(kind, k)` gives the arithmetic of segment k of the table, its coefficients filled in (from
// norms in the device's memory, say); it may be left out where all segments are alike. The
// arithmetic meets every place (lanewise.hpp) of the segment once, and says by `idle()`, if it
// likes, that there is nothing to do. It is constexpr and not annotated: nvcc lets a device call it
// so, and refuses a function for both sides that ever meets a register of numbers.
//
// The work is cut into chunks that never straddle two segments and never depend on the number of
// workers; sums are made per chunk in double and added in the order of chunks, so they are the same
// bits for any number of workers.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/lanewise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

inline constexpr std::size_t chunk_size = 16384;  // 64 KiB of FP32: two streams fit a level-2 cache

constexpr std::size_t chunks_of(const segment& s) { return (s.size + chunk_size - 1) / chunk_size; }
constexpr std::size_t chunks_of(std::span<const segment> table) {
  std::size_t n = 0;
  for (const segment& s : table) n += chunks_of(s);
  return n;
}

/// f(segment index, chunk index over all segments, first, last), places relative to the first
/// segment. Workers share the places evenly: a chunk is whose its first place is.
template <class F>
void for_each_chunk(cpu::stream s, std::span<const segment> table, const F& f) {
  if (table.empty()) return;
  const std::size_t origin = table.front().offset;
  const std::size_t places = table.back().offset + table.back().size - origin;
  parallel(s, places, chunk_size, [&](std::size_t begin, std::size_t end) {
    std::size_t chunk = 0;
    for (std::size_t k = 0; k < table.size(); ++k) {
      const std::size_t start = table[k].offset - origin, stop = start + table[k].size;
      for (std::size_t first = start; first < stop; first += chunk_size, ++chunk)
        if (begin <= first && first < end) f(k, chunk, first, std::min(first + chunk_size, stop));
    }
  });
}

}  // namespace detail

/// What a pass over segments of Real does: pointers and numbers, since a kernel carries it.
template <class B>
concept ToldBySegment = requires(const B b) { b.of(kind::weight, std::size_t{}); };
template <class B, class Real>
concept Segmentwise = std::is_trivially_copyable_v<B> &&
                      (ToldBySegment<B> || std::invocable<const B, detail::place<Real, 1>>);

namespace detail {

/// The arithmetic of segment k.
template <class Body>
CORDEE_HOST_DEVICE auto arithmetic_of(const Body& body, kind what, std::size_t k) {
  if constexpr (ToldBySegment<Body>)
    return body.of(what, k);
  else
    return body;
}
template <class Arithmetic>
CORDEE_HOST_DEVICE bool idle(const Arithmetic& f) {
  if constexpr (requires { f.idle(); })
    return f.idle();
  else
    return false;
}

}  // namespace detail

/// The body's arithmetic at every number of the table's segments, places in planes that begin at
/// the first segment.
template <class Real, Segmentwise<Real> Body>
void segmented_for(cpu::stream s, std::span<const segment> table, const Body& body) {
  detail::for_each_chunk(s, table,
                         [&](std::size_t k, std::size_t, std::size_t first, std::size_t last) {
                           const auto f = detail::arithmetic_of(body, table[k].what, k);
                           if (!detail::idle(f)) lanewise<Real>(first, last, f);
                         });
}

namespace detail {

/// Of numbers, in double. Eight independent sums let the compiler use its vectors without
/// -ffast-math.
class square_sum {
 public:
  static constexpr std::size_t width = 8;

  /// `n` is a multiple of `width`, but for the last time.
  template <class Real>
  void add(const Real* from, std::size_t n) {
    const std::size_t whole = n / width * width;
    for (std::size_t i = 0; i < whole; i += width)
      for (std::size_t j = 0; j < width; ++j) {
        const auto value = static_cast<double>(from[i + j]);
        sums_[j] += value * value;
      }
    for (std::size_t i = whole; i < n; ++i) {
      const auto value = static_cast<double>(from[i]);
      sums_[i - whole] += value * value;
    }
  }
  [[nodiscard]] double total() const {
    return ((sums_[0] + sums_[1]) + (sums_[2] + sums_[3])) +
           ((sums_[4] + sums_[5]) + (sums_[6] + sums_[7]));
  }

 private:
  double sums_[width] = {};
};

/// sums[k] becomes the sum of what f(k, first, last) returned for the chunks of segment k.
template <class F>
void segmented_sums(cpu::stream s, std::span<const segment> table, span_on<double, cpu> sums,
                    const F& f) {
  expects(sums.size >= table.size(), "segmented_squares: one sum for each segment");
  std::vector<double> partial(chunks_of(table));
  for_each_chunk(s, table,
                 [&](std::size_t k, std::size_t chunk, std::size_t first, std::size_t last) {
                   partial[chunk] = f(k, first, last);
                 });
  std::size_t chunk = 0;
  for (std::size_t k = 0; k < table.size(); ++k) {
    sums[k] = 0;
    for (std::size_t end = chunk + chunks_of(table[k]); chunk < end; ++chunk)
      sums[k] += partial[chunk];
  }
}

}  // namespace detail

/// The sum of squares of each segment of `x`, in double: squares[k] for segment k of the table.
/// A number that is not finite makes its segment's sum so.
template <class Real>
void segmented_squares(cpu::stream s, std::span<const segment> table, span_on<const Real, cpu> x,
                       span_on<double, cpu> squares) {
  detail::segmented_sums(s, table, squares, [&](std::size_t, std::size_t first, std::size_t last) {
    detail::square_sum sum;
    sum.add(x.data + first, last - first);
    return sum.total();
  });
}

/// The same of what the body's arithmetic returns, while it does whatever else it does.
template <class Real, Segmentwise<Real> Body>
void segmented_squares(cpu::stream s, std::span<const segment> table, const Body& body,
                       span_on<double, cpu> squares) {
  detail::segmented_sums(
      s, table, squares, [&](std::size_t k, std::size_t first, std::size_t last) {
        constexpr std::size_t some = 256;
        Real said[some];
        detail::square_sum sum;
        const auto f = detail::arithmetic_of(body, table[k].what, k);
        for (std::size_t i = first; i < last; i += some) {
          const std::size_t n = std::min(some, last - i);
          lanewise<Real>(i, i + n, [&](auto at) { decltype(at){at.i - i}.put(said, f(at)); });
          sum.add(said, n);
        }
        return sum.total();
      });
}

}  // namespace cordee::inline CORDEE_ABI
