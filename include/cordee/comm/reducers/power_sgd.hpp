// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Low-rank compression with error feedback: PowerSGD (Vogels et al. 2019), one step of a power
// iteration started from the previous step's directions: power_sgd{ring{comm}, {.rank = 4}}.
//
//   X <- G + E                               each tensor as a matrix: first side x all others
//   P <- orthonormal columns of mean(X Q)
//   Q <- mean(X^T P),   E <- X - P (X^T P)^T,   G <- P Q^T
//
// Two messages a bucket through the reducer inside: first every P and the uncompressed tensors,
// whose E is zero, then every Q. All ranks hold the same G. The ranks' mean of E is what the means
// have left out, so a G of rank r or less is exact, and so is the sum over steps. A zero column of
// Q, as in the first step, is drawn at random, alike on all ranks. A single rank loses nothing.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/comm/reducers/low_rank.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Options of power_sgd.
struct power_sgd_options {
  /// Columns of P and Q. Range: 1 or more, else usage_error.
  int rank = 4;
  /// Least compression rate: a tensor is compressed if P and Q together are more than this many
  /// times smaller. Range: 1 or more, else usage_error.
  double min_compression_rate = 2;
  /// Seed of the first Q. Range: any, the same on every rank.
  std::uint64_t seed = 0;
};

}  // namespace detail::comm

/// A reducer of low-rank approximations, with error feedback.
template <class R>
struct power_sgd {
  using communicator_type = typename R::communicator_type;  ///< See ReducerOn.
  static constexpr agreement offers = agreement::exact;     ///< All ranks hold the same P and Q.
  static constexpr bool lossless = false;                   ///< The approximation is lossy.
  static constexpr int slots = 2;                           ///< The residual E, and Q.
  static constexpr bool residual_slots = true;              ///< The next vector is sent with E.
  static constexpr bool single_message = false;             ///< Each bucket has its own P and Q.
  static_assert(R::slots == 0 && R::lossless && R::offers == agreement::exact &&
                    !detail::comm::ShardsUpdate<R>,
                "power_sgd: the reducer inside takes exact means of P and Q: use ring, "
                "halving_doubling, tree or another exact reducer");

  R reducer;  ///< The reducer inside: an exact one; others do not compile.
  detail::comm::power_sgd_options options{};  ///< Rank, and which tensors are compressed.
  communicator_type comm = reducer.comm;      ///< State: the communicator of `reducer`.

  /// Scratch for all P, Q and uncompressed tensors, and that of the reducer inside.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    expects(options.rank > 0, "power_sgd: .rank must be at least 1");
    expects(options.min_compression_rate >= 1,
            "power_sgd: .min_compression_rate must be at least 1");
    return message_bytes<Real>(n) + reducer.template scratch<Real>(n);
  }
  /// @throws usage_error for a table in which no tensor is compressed.
  void check(std::span<const segment> table) const {
    for (const segment& s : table)
      if (is_compressed(s)) return;
    throw usage_error(concat(
        "power_sgd: no tensor of the model becomes ", options.min_compression_rate,
        " times smaller at rank ", options.rank,
        ": choose a smaller .rank or .min_compression_rate, or the reducer inside alone; the "
        "tensors of a parameter_list need their shapes"));
  }

  /// Averages the bucket's matrices by P and Q, all else as the reducer inside does.
  template <class Real, Device D>
    requires(ReducerOn<R, Real, D>)
  void mix(bucket_view<Real, D, 2> m, const step_info& info, typename D::stream s) const {
    if (comm.size() == 1) return;
    std::size_t plain = 0, left = 0, right = 0;  // numbers: as they are, of P, of Q
    for_each_tensor(m, [&](const segment& t, std::size_t, std::size_t, std::size_t) {
      add_lengths(t, left, right, plain);
    });
    if (left == 0) return reducer.mix(of_inside(m, m.values, m.scratch), info, s);

    Real* const p = reinterpret_cast<Real*>(m.scratch.data);  // plain numbers behind all P
    Real* const q = p + left + plain;
    const std::size_t bytes = message_bytes<Real>(m.values.size);
    const auto rest = m.scratch.subspan(bytes, m.scratch.size - bytes);
    if constexpr (computes<D>) project_all_rows(m, p, p + left, info, s);
    reducer.mix(of_inside(m, {p, left + plain}, rest), info, s);
    if constexpr (computes<D>) project_all_cols(m, p, p + left, q, s);
    reducer.mix(of_inside(m, {q, right}, rest), info, s);
    if constexpr (computes<D>) multiply_all(m, p, q, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(reducer), ", in rank ", options.rank,
                  " where that is more than ", options.min_compression_rate,
                  " times smaller (seed ", options.seed, "), with error feedback");
  }

 private:
  // Passes over tensors below are, for a GPU by argument-dependent lookup, of ops/gpu/low_rank.hpp.
  template <class D>
  static constexpr bool computes = !std::same_as<D, phantom>;

  template <class Real, class Stream>
  static void copy_numbers(const Real* from, std::size_t n, Real* to, Stream s) {
    if constexpr (requires { s.copy(to, from, n); })
      s.copy(to, from, n * sizeof(Real));
    else
      std::copy_n(from, n, to);
  }
  [[nodiscard]] bool is_compressed(const segment& s) const {
    return detail::comm::matrix_extent{s, options.rank}.shrinks(options.min_compression_rate);
  }
  template <class Real>
  [[nodiscard]] static constexpr std::size_t message_bytes(std::size_t n) {
    return (n * sizeof(Real) + 63) / 64 * 64;
  }
  // What the reducer inside mixes.
  template <class Real, class D>
  static bucket_view<Real, D, 0> of_inside(const bucket_view<Real, D, 2>& m,
                                           span_on<Real, D> values, span_on<std::byte, D> rest) {
    return {values.data == m.values.data ? m.layout : nullptr, values, {}, rest};
  }
  // X <- G + E, and P <- X Q
  template <class Real, class D>
  void project_all_rows(const bucket_view<Real, D, 2>& m, Real* p, Real* plain,
                        const step_info& info, typename D::stream s) const {
    for_each_tensor(m, [&](const segment& t, std::size_t at_p, std::size_t, std::size_t at_plain) {
      const std::size_t at = t.offset - m.layout->offset;
      Real *const x = m.values.data + at, *const q = m.slots[1].data + at;
      if (!is_compressed(t)) {
        copy_numbers(x, t.size, plain + at_plain, s);
        return;
      }
      const detail::comm::matrix_extent e{t, options.rank};
      add(t.size, m.slots[0].data + at, x, s);
      draw_zero_columns(e, options.seed, info.step, t.offset, q, s);
      project_rows(e, x, q, p + at_p, s);
    });
  }
  // From the mean P: orthonormal columns, Q <- X^T P, and E <- X - P Q^T
  template <class Real, class D>
  void project_all_cols(const bucket_view<Real, D, 2>& m, Real* p, const Real* plain, Real* q,
                        typename D::stream s) const {
    for_each_tensor(
        m, [&](const segment& t, std::size_t at_p, std::size_t at_q, std::size_t at_plain) {
          const std::size_t at = t.offset - m.layout->offset;
          Real* const x = m.values.data + at;
          if (!is_compressed(t)) {
            copy_numbers(plain + at_plain, t.size, x, s);
            return;
          }
          const detail::comm::matrix_extent e{t, options.rank};
          orthonormalize(e, p + at_p, s);
          project_cols(e, x, p + at_p, q + at_q, s);
          add_outer_product(e, x, Real{-1}, p + at_p, q + at_q, m.slots[0].data + at, s);
        });
  }
  // G <- P Q^T of the mean Q, which is kept
  template <class Real, class D>
  void multiply_all(const bucket_view<Real, D, 2>& m, const Real* p, const Real* q,
                    typename D::stream s) const {
    for_each_tensor(m, [&](const segment& t, std::size_t at_p, std::size_t at_q, std::size_t) {
      if (!is_compressed(t)) return;
      const detail::comm::matrix_extent e{t, options.rank};
      const std::size_t at = t.offset - m.layout->offset;
      copy_numbers(q + at_q, e.cols * e.rank, m.slots[1].data + at, s);
      add_outer_product(e, static_cast<const Real*>(nullptr), Real{1}, p + at_p, q + at_q,
                        m.values.data + at, s);
    });
  }
  // f(tensor, first number of its P, of its Q, of itself among those that stay as they are)
  template <class View, class F>
  void for_each_tensor(const View& m, const F& f) const {
    if (m.layout == nullptr) return;
    std::size_t p = 0, q = 0, plain = 0;
    for (const segment& t : m.layout->segments) {
      f(t, p, q, plain);
      add_lengths(t, p, q, plain);
    }
  }
  void add_lengths(const segment& t, std::size_t& p, std::size_t& q, std::size_t& plain) const {
    const detail::comm::matrix_extent e{t, options.rank};
    if (is_compressed(t))
      p += e.rows * e.rank, q += e.cols * e.rank;
    else
      plain += t.size;
  }
};
template <class R>
power_sgd(R) -> power_sgd<R>;
template <class R>
power_sgd(R, detail::comm::power_sgd_options) -> power_sgd<R>;

}  // namespace cordee::inline CORDEE_ABI
