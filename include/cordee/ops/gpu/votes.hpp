// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Votes of majority_vote on a GPU (comm/reducers/majority_vote.hpp): a bit for each number, set for
// negative ones, in chunks of ranks, each with a byte behind it that is 1 if a number of the chunk
// was not finite.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/segmented.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The chunks of votes on n numbers, as comm::chunk_start cuts them.
struct vote_chunks {
  std::size_t bytes, count;

  vote_chunks(std::size_t n, int ranks)
      : bytes((n + 7) / 8), count(static_cast<std::size_t>(ranks)) {}
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t start(std::size_t k) const {
    return bytes * k / count;
  }
  /// The chunk of a byte.
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t of(std::size_t byte) const {
    return ((byte + 1) * count - 1) / bytes;
  }
  /// Where the last byte of a chunk is.
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t last(std::size_t k) const {
    return start(k + 1) + k;
  }
};

/// m <- kept m + added x
template <class Real>
struct vote_momentum_op {
  const Real* x;
  Real* m;
  Real kept, added;
  CORDEE_DEVICE void operator()(std::size_t i) const { m[i] = kept * m[i] + added * x[i]; }
};
/// The last byte of chunk k <- 0.
struct begin_votes_op {
  static constexpr std::size_t numbers_per_thread = 1;  // it divides
  vote_chunks chunks;
  std::byte* votes;
  CORDEE_DEVICE void operator()(std::size_t k) const { votes[chunks.last(k)] = std::byte{}; }
};
/// Byte b of the votes on x.
template <class Real>
struct vote_op {
  static constexpr std::size_t numbers_per_thread = 1;  // it divides
  vote_chunks chunks;
  const Real* x;
  std::size_t n;
  bool zero_is_negative;
  std::byte* votes;

  CORDEE_DEVICE void operator()(std::size_t b) const {
    const std::size_t k = chunks.of(b);
    unsigned negative = 0;
    bool finite = true;
    for (std::size_t j = 0; j < 8 && 8 * b + j < n; ++j) {
      const Real value = x[8 * b + j];
      finite = finite && core::isfinite(value);
      negative |= static_cast<unsigned>(value < 0 || (value == 0 && zero_is_negative)) << j;
    }
    votes[b + k] = static_cast<std::byte>(negative);
    if (!finite) votes[chunks.last(k)] = std::byte{1};  // of several threads each writes 1
  }
};
/// own <- the majority of all ranks' votes on a chunk; a tie goes to rank `tie`.
struct count_votes_op {
  const std::byte* votes;  // (ranks, size), this rank's row of which is `own`
  std::byte* own;
  std::size_t size;
  int ranks, rank, tie;

  CORDEE_DEVICE void operator()(std::size_t b) const {
    int counts[8] = {};
    unsigned any = 0, decides = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto row =
          static_cast<unsigned>(r == rank ? own[b] : votes[static_cast<std::size_t>(r) * size + b]);
      if (r == tie) decides = row;
      any |= row;
      for (int j = 0; j < 8; ++j) counts[j] += static_cast<int>(row >> j & 1);
    }
    unsigned negative = 0;
    for (int j = 0; j < 8; ++j) {
      const int twice = 2 * counts[j];
      negative |= (twice > ranks || (twice == ranks && (decides >> j & 1) != 0) ? 1U : 0U) << j;
    }
    own[b] = static_cast<std::byte>(b + 1 == size ? any : negative);
  }
};
/// x[i] <- the sign that was voted; NaN in chunks with a number that was not finite.
template <class Real>
struct voted_sign_op {
  static constexpr std::size_t numbers_per_thread = 1;  // it divides
  vote_chunks chunks;
  const std::byte* votes;
  Real* x;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t k = chunks.of(i / 8);
    const Real one =
        votes[chunks.last(k)] == std::byte{} ? Real{1} : std::numeric_limits<Real>::quiet_NaN();
    x[i] = (static_cast<unsigned>(votes[i / 8 + k]) >> (i % 8) & 1) != 0 ? -one : one;
  }
};
/// x <- 0 between a segment's end and the next multiple of 64 numbers.
template <class Real>
struct clear_padding_kernel {
  static constexpr int threads = 256;
  table_part table;
  Real* x;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const table_part::run run = table.run_at(b.index());
    if (b.index() + 1 != run.last_chunk) return;
    const std::size_t i = run.last + static_cast<std::size_t>(b.thread());
    if (i < core::align_up(run.last)) x[i] = 0;
  }
};

/// The votes of so many ranks' chunks on m <- kept m + (1 - kept) x.
template <class Real, GpuStream S>
void vote(std::size_t n, int ranks, const Real* x, Real* m, double kept, bool zero_is_negative,
          std::byte* votes, S s) {
  const vote_chunks chunks(n, ranks);
  for_each(s, n,
           vote_momentum_op<Real>{x, m, static_cast<Real>(kept), static_cast<Real>(1 - kept)});
  for_each(s, chunks.count, begin_votes_op{chunks, votes});
  for_each(s, chunks.bytes, vote_op<Real>{chunks, m, n, zero_is_negative, votes});
}
/// own, this rank's votes on its chunk of `size` bytes, <- the majority.
template <GpuStream S>
void count_votes(const std::byte* votes, std::byte* own, std::size_t size, int ranks, int rank,
                 int tie, S s) {
  for_each(s, size, count_votes_op{votes, own, size, ranks, rank, tie});
}
/// x <- the signs that were voted, 0 between the segments of the table, if it has any.
template <class Real, GpuStream S>
void take_votes(std::size_t n, int ranks, std::span<const segment> table, const std::byte* votes,
                Real* x, S s) {
  for_each(s, n, voted_sign_op<Real>{vote_chunks(n, ranks), votes, x});
  for_each_part(table, segmented_chunk_size, [&](const auto& part) {
    s.launch_kernel(part.chunks(), clear_padding_kernel<Real>{part, x});
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
