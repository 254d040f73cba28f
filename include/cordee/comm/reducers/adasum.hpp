// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Adasum: gradients are added where they are orthogonal, averaged where they are parallel (Maleki
// et al. 2021; Horovod). The result is not a mean, but like one it is the same on all ranks.
//
//   a + b  ->  (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b      of each parameter tensor
//
// A tensor below sqrt(DBL_MIN) in square counts as orthogonal. The operation is not associative, so
// its tree is part of the result: pairs of ranks 2^k apart, the lower rank's vector first, as in
// butterfly.hpp; if the number of ranks is not a power of two, ranks 2i and 2i + 1 of the first 2
// (p - p') come first. log2 p messages and n log2 p numbers a rank; products are summed in double.
// For optimizers that average gradients; weights need a lossless mean instead.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include <cordee/comm/reducers/power_of_two_remap.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// a.a, b.b and a.b. Several independent sums vectorize without -ffast-math.
struct adasum_products {
  static constexpr std::size_t width = 8;
  double aa = 0, bb = 0, ab = 0;

  template <class Real>
  static adasum_products of(const Real* a, const Real* b, std::size_t n) {
    double sums[3][width]{};
    for (std::size_t i = 0; i < n; i += width)
      for (std::size_t j = 0; j < width && i + j < n; ++j) {
        const auto x = static_cast<double>(a[i + j]), y = static_cast<double>(b[i + j]);
        sums[0][j] += x * x;
        sums[1][j] += y * y;
        sums[2][j] += x * y;
      }
    adasum_products p;
    for (std::size_t j = 0; j < width; ++j)
      p.aa += sums[0][j], p.bb += sums[1][j], p.ab += sums[2][j];
    return p;
  }
  /// Coefficient of a vector whose squared norm is `square`.
  [[nodiscard]] double coefficient(double square) const {
    static const double least = detail::core::sqrt(std::numeric_limits<double>::min());
    return square < least ? 1 : 1 - ab / (2 * square);
  }
};

/// out <- a (+) b, where out may be a or b.
template <class Real>
void adasum(std::size_t n, const Real* a, const Real* b, Real* out) {
  const adasum_products p = adasum_products::of(a, b, n);
  const double ca = p.coefficient(p.aa), cb = p.coefficient(p.bb);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<Real>(ca * static_cast<double>(a[i]) + cb * static_cast<double>(b[i]));
}

}  // namespace detail::comm

/// Adasum of the ranks' gradients, tensor by tensor. Runs on the CPU only.
template <class Communicator>
struct adasum : reducer_base<Communicator> {
  /// Not a mean, but the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = false;  ///< Unfit for weights: the result is no mean.

  /// Scratch for the partner's vector.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }

  /// Adds the segments of the bucket one by one; without a layout the bucket is one tensor.
  template <class Real, Device D>
    requires(D::host_memory)
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    const detail::comm::power_of_two_remap map{this->comm.rank(), this->comm.size()};
    const span_on<Real, D> own = m.values;
    const span_on<Real, D> other{reinterpret_cast<Real*>(m.scratch.data), own.size};
    const auto exchange = [&](int next, int previous, span_on<Real, D> incoming) {
      detail::comm::hop<D>(next, bytes(own), previous, bytes(incoming),
                           [&](auto out, auto in) { this->comm.exchange(out, in, s); });
    };
    const int rank = this->comm.rank();
    if (map.is_idle()) {
      exchange(rank + 1, no_peer, {});
      exchange(no_peer, rank + 1, own);
      return;
    }
    if (map.is_paired()) {
      exchange(no_peer, rank - 1, other);
      combine(m, other.data, own.data);
    }
    for (int step = 1; step < map.ranks(); step *= 2) {
      const int peer = map.rank_of(map.index() ^ step);
      exchange(peer, peer, other);
      const bool lower = (map.index() & step) == 0;
      combine(m, lower ? own.data : other.data, lower ? other.data : own.data);
    }
    if (map.is_paired()) exchange(rank - 1, no_peer, {});
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("Adasum over ", this->comm.size(), " ranks, tensor by tensor");
  }

 private:
  // m.values <- a (+) b of each segment of the bucket, or of all numbers where it has none.
  template <class Real, class View>
  static void combine(const View& m, const Real* a, const Real* b) {
    const auto part = [&](std::size_t first, std::size_t n) {
      detail::comm::adasum(n, a + first, b + first, m.values.data + first);
    };
    if (m.layout == nullptr) return part(0, m.values.size);
    for (const segment& s : m.layout->segments) part(s.offset - m.layout->offset, s.size);
  }
};
template <class Communicator>
adasum(Communicator) -> adasum<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
