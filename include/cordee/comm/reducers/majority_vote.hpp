// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// signSGD and Signum with majority vote (Bernstein et al. 2018, 2019): the majority of the signs of
// the ranks' momenta, one bit a number each way: majority_vote{comm, {.momentum = 0.9}} under an
// optimizer without momentum, sgd{.momentum = 0}.
//
//   m_i <- momentum m_i + (1 - momentum) x_i       on each rank; signSGD: momentum 0
//   x   <- sign(sign(m_0) + ... + sign(m_{p-1}))   -1 or 1 for each number, alike on all ranks
//
//   zero   votes 1 in even steps and -1 in odd ones, so numbers without gradient do not drift
//   tie    goes to the vote of rank (step mod p)
//
// Each rank counts the votes on its chunk, as in two_shot: 2(p - 1) messages and 2n(p - 1)/p bits a
// rank. A NaN or infinity makes its chunk NaN on all ranks, so that all skip alike; a skipped step
// clears m. A single rank uses its own signs.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Options of majority_vote.
struct majority_vote_options {
  /// Momentum: the decay rate of m; 0: signSGD. Range: 0 <= momentum < 1, else usage_error.
  /// Default: as Bernstein et al. 2018.
  double momentum = 0.9;
};

/// Votes on n numbers, a set bit for each negative one. Returns whether all are finite.
template <class Real>
bool encode_signs(std::size_t n, const Real* x, bool zero_is_negative, std::byte* bits) {
  bool finite = true;
  std::memset(bits, 0, (n + 7) / 8);
  for (std::size_t i = 0; i < n; ++i) {
    finite = finite && detail::core::isfinite(x[i]);
    if (x[i] < 0 || (x[i] == 0 && zero_is_negative)) bits[i / 8] |= std::byte{1} << (i % 8);
  }
  return finite;
}

/// Of 64 numbers at once: how many votes of up to 2^32 are negative, a bit of the counts in each
/// plane.
class vote_counts {
 public:
  void add(std::uint64_t negative) {
    for (std::size_t k = 0; negative != 0; ++k) {
      const std::uint64_t carry = planes_[k] & negative;
      planes_[k] ^= negative;
      negative = carry;
    }
  }
  /// Where the majority of `ranks` is negative, or `tie` is, of as many votes for as against.
  [[nodiscard]] std::uint64_t negative(int ranks, std::uint64_t tie) const {
    const auto half = static_cast<unsigned>(ranks) / 2;
    std::uint64_t more = 0, equal = ~std::uint64_t{0};
    for (std::size_t k = planes_.size(); k-- > 0;) {
      if ((half >> k & 1) == 0) more |= equal & planes_[k];
      equal &= (half >> k & 1) == 0 ? ~planes_[k] : planes_[k];
    }
    return more | (ranks % 2 == 0 ? equal & tie : 0);
  }

 private:
  std::array<std::uint64_t, 32> planes_{};
};

}  // namespace detail::comm

/// The majority of the ranks' signs.
template <class Communicator>
struct majority_vote {
  using communicator_type = Communicator;  ///< See ReducerOn.
  /// Not a mean, but the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = false;        ///< Only signs remain.
  static constexpr int slots = 1;                ///< The momentum m.
  static constexpr bool residual_slots = true;   ///< The ranks' mean of m is a momentum.
  static constexpr bool single_message = false;  ///< Each bucket has its own votes.
  static constexpr bool signs_only = true;       ///< Signs of weight differences are no step.

  Communicator comm;                              ///< The ranks that vote.
  detail::comm::majority_vote_options options{};  ///< The momentum.

  /// Scratch for this rank's votes on all numbers, or the result, and all ranks' votes on its
  /// chunk.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    check({});
    const std::size_t bytes = (n + 7) / 8, p = static_cast<std::size_t>(comm.size());
    return bytes + p + p * (bytes / p + 2);
  }
  /// @throws usage_error for a momentum outside its range.
  void check(std::span<const segment>) const {
    if (!(options.momentum >= 0 && options.momentum < 1))
      throw usage_error(
          concat("majority_vote: .momentum is ", options.momentum, ", but must be in [0, 1)"));
  }

  /// Votes on all numbers of the bucket.
  template <class Real, Device D>
    requires(D::host_memory || std::same_as<D, phantom> || GpuStream<typename D::stream>)
  void mix(bucket_view<Real, D, 1> m, const step_info& info, typename D::stream s) const {
    const int p = comm.size(), rank = comm.rank();
    const std::size_t n = m.values.size;
    // Each chunk: the votes, then a byte that is 1 if a number was not finite.
    const auto chunk = [&](int k) {
      return m.scratch.subspan(start(n, k) + static_cast<std::size_t>(k),
                               start(n, k + 1) - start(n, k) + 1);
    };
    const span_on<std::byte, D> own = chunk(rank);
    const detail::comm::rank_rows<std::byte, D> votes{
        m.scratch.data + start(n, p) + static_cast<std::size_t>(p), own.size, p};  // (p, n / 8p)
    write_votes(m, chunk, info.step % 2 != 0, s);
    if (p > 1) {
      const int tie = static_cast<int>(info.step % p);
      detail::comm::exchange_with_all<D>(comm, chunk, votes, s);
      // for a GPU by argument-dependent lookup: ops/gpu/votes.hpp
      if constexpr (GpuStream<typename D::stream>) {
        count_votes(votes.data, own.data, own.size, p, rank, tie, s);
      } else if constexpr (D::host_memory) {
        std::memcpy(votes(rank).data, own.data, own.size);
        count(votes, tie, own.data);
      }
      detail::comm::exchange_with_all<D>(
          comm, [&](int) { return own; }, chunk, s);
    }
    take_majority(m, chunk, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("majority of ", comm.size(), " ranks' signs",
                  options.momentum > 0 ? concat(", of momenta ", options.momentum) : "");
  }

 private:
  // The byte of votes at which chunk k begins.
  [[nodiscard]] std::size_t start(std::size_t n, int k) const {
    return detail::comm::chunk_start((n + 7) / 8, k, comm.size());
  }
  // f(chunk, first number, numbers)
  template <class F>
  void for_each_chunk(std::size_t n, const F& f) const {
    for (int k = 0; k < comm.size(); ++k) {
      const std::size_t first = std::min(n, 8 * start(n, k));
      f(k, first, std::min(n, 8 * start(n, k + 1)) - first);
    }
  }
  // m <- momentum m + (1 - momentum) x, and its votes
  template <class Real, Device D, class Chunk>
  void write_votes(const bucket_view<Real, D, 1>& m, const Chunk& chunk, bool zero_is_negative,
                   typename D::stream s) const {
    const std::size_t n = m.values.size;
    Real *const x = m.values.data, *const momentum = m.slots[0].data;
    // for a GPU by argument-dependent lookup: ops/gpu/votes.hpp
    if constexpr (GpuStream<typename D::stream>) {
      vote(n, comm.size(), x, momentum, options.momentum, zero_is_negative, m.scratch.data, s);
    } else if constexpr (D::host_memory) {
      const auto kept = static_cast<Real>(options.momentum),
                 added = static_cast<Real>(1 - options.momentum);
      for (std::size_t i = 0; i < n; ++i) momentum[i] = kept * momentum[i] + added * x[i];
      for_each_chunk(n, [&](int k, std::size_t first, std::size_t count) {
        const auto to = chunk(k);
        to.data[to.size - 1] = std::byte{
            !detail::comm::encode_signs(count, momentum + first, zero_is_negative, to.data)};
      });
    }
  }
  // x <- the signs that were voted, or NaN
  template <class Real, Device D, class Chunk>
  void take_majority(const bucket_view<Real, D, 1>& m, const Chunk& chunk,
                     typename D::stream s) const {
    const std::size_t n = m.values.size;
    Real* const x = m.values.data;
    // for a GPU by argument-dependent lookup: ops/gpu/votes.hpp
    if constexpr (GpuStream<typename D::stream>) {
      take_votes(n, comm.size(),
                 m.layout == nullptr ? std::span<const segment>{} : m.layout->segments,
                 m.scratch.data, x, s);
    } else if constexpr (D::host_memory) {
      for_each_chunk(n, [&](int k, std::size_t first, std::size_t count) {
        const auto from = chunk(k);
        const Real one = from.data[from.size - 1] == std::byte{}
                             ? Real{1}
                             : std::numeric_limits<Real>::quiet_NaN();
        for (std::size_t i = 0; i < count; ++i)
          x[first + i] = (from.data[i / 8] >> (i % 8) & std::byte{1}) != std::byte{} ? -one : one;
      });
      clear_padding(m);
    }
  }
  // out <- the majority of all rows and a last byte that any of them has set; a tie goes to row
  // `tie`.
  template <Device D>
  static void count(const detail::comm::rank_rows<std::byte, D>& votes, int tie, std::byte* out) {
    const std::size_t n = votes.n - 1;
    const auto word = [&](int rank, std::size_t first, std::size_t bytes) {
      std::uint64_t w = 0;
      std::memcpy(&w, votes(rank).data + first, bytes);
      return w;
    };
    for (std::size_t i = 0; i < n; i += sizeof(std::uint64_t)) {
      const std::size_t bytes = std::min(n - i, sizeof(std::uint64_t));
      detail::comm::vote_counts counts;
      for (int rank = 0; rank < votes.ranks; ++rank) counts.add(word(rank, i, bytes));
      const std::uint64_t w = counts.negative(votes.ranks, word(tie, i, bytes));
      std::memcpy(out + i, &w, bytes);
    }
    std::byte bad{};
    for (int rank = 0; rank < votes.ranks; ++rank) bad |= votes(rank).data[n];
    out[n] = bad;
  }
  // Numbers between tensors are zero for the passes that read a whole plane.
  template <class View>
  static void clear_padding(const View& m) {
    if (m.layout == nullptr) return;
    std::size_t end = 0;
    for (const segment& t : m.layout->segments) {
      const std::size_t first = t.offset - m.layout->offset;
      std::fill(m.values.data + end, m.values.data + first, 0);
      end = first + t.size;
    }
    std::fill(m.values.data + end, m.values.data + m.values.size, 0);
  }
};
template <class Communicator>
majority_vote(Communicator) -> majority_vote<Communicator>;
template <class Communicator>
majority_vote(Communicator, detail::comm::majority_vote_options) -> majority_vote<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
