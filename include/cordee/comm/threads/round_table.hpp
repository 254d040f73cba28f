// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of one process meet on one lane for a mean over shared memory.
//
//   long:  everybody lays out a pointer; all are there; rank r sums slice r of all vectors, in the
//          order of ranks, divides and writes it to all of them; all are done
//   short: everybody lays out a copy; all are there; everybody sums all copies in the same order
//
// A piece is summed while it is in the cache: p reads and p writes of memory, no more. The order of
// a sum is that of the ranks, so results do not depend on lengths or slices.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include <cordee/comm/threads/desk.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class round_table {
 public:
  explicit round_table(int ranks)
      : seats_(static_cast<std::size_t>(ranks)), ranks_(static_cast<std::uint64_t>(ranks)) {}

  /// Up to so many bytes everybody sums everything: one meeting instead of two.
  static constexpr bool is_short(std::size_t bytes) { return bytes <= short_bytes; }

  /// Lays out n numbers of this rank, or a copy of them. All must `meet` before any are read.
  template <class Real>
  void lay_out(int rank, Real* x, std::size_t n) {
    seat& mine = seat_of(rank);
    const std::size_t turn = mine.meetings % 2;  // nobody reads what lay here two meetings ago
    mine.offers[turn] = {x, n * sizeof(Real)};
    if (n > 0 && is_short(n * sizeof(Real)))
      std::memcpy(mine.copies[turn].data(), x, n * sizeof(Real));
  }

  /// Waits for all; false if it was given up because of `stop` or at `until`. Then this rank has
  /// not come, and nobody will read what it laid out.
  template <class Stop>
  bool meet(int rank, thread_clock::time_point until, const Stop& stop) {
    const std::uint64_t all = arrive(rank);
    look_for([&] { return arrived_ >= all; }, thread_clock::now() + before_sleep);
    if (arrived_ < all) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      changed_.wait_until(lock, until, [&] { return arrived_ >= all || stop(); });
      --sleepers_;
    }
    for (std::uint64_t here = arrived_; here < all;)
      if (arrived_.compare_exchange_weak(here, here - 1)) {
        seat& mine = seat_of(rank);
        mine.came = --mine.meetings;
        return false;
      }
    return true;
  }

  /// Waits for all who met to have read and written: what is under way ends.
  void part(int rank) {
    const std::uint64_t all = arrive(rank);
    look_for([&] { return arrived_ >= all; }, thread_clock::now() + before_sleep);
    if (arrived_ >= all) return;
    std::unique_lock lock(mutex_);
    ++sleepers_;
    changed_.wait(lock, [&] { return arrived_ >= all; });
    --sleepers_;
  }

  /// Somebody who has not come to the meeting that `rank` has just given up.
  [[nodiscard]] int missing(int rank) const {
    for (int other = 0; other < static_cast<int>(ranks_); ++other)
      if (other != rank && seat_of(other).came <= seat_of(rank).came) return other;
    return rank;
  }

  /// The bytes that `other` brought to the meeting that `rank` is at.
  [[nodiscard]] std::size_t brought(int rank, int other) const {
    return seat_of(other).offers[turn_of(rank)].size;
  }

  /// x <- the mean of all copies.
  template <class Real>
  void mean_of_copies(int rank, Real* x, std::size_t n) const {
    sum_in_order(x, n, [this, turn = turn_of(rank)](std::size_t r) {
      return reinterpret_cast<const Real*>(seats_[r].copies[turn].data());
    });
  }

  /// A slice of everybody's vector <- the mean of that slice.
  template <class Real>
  void mean_of_slices(int rank, std::size_t n) const {
    constexpr std::size_t line = 64 / sizeof(Real), piece = piece_bytes / sizeof(Real);
    const auto start = [&](int i) {  // no two ranks write to one cache line
      const std::size_t first = n * static_cast<std::size_t>(i) / ranks_;
      return i == static_cast<int>(ranks_) ? n : first / line * line;
    };
    const auto vector = [this, turn = turn_of(rank)](std::size_t r) {
      return static_cast<Real*>(seats_[r].offers[turn].data);
    };
    std::array<Real, piece> sum;
    for (std::size_t from = start(rank), end = start(rank + 1); from < end; from += piece) {
      const std::size_t count = std::min(piece, end - from);
      sum_in_order(sum.data(), count, [&](std::size_t r) { return vector(r) + from; });
      for (std::size_t r = 0; r < ranks_; ++r)
        std::memcpy(vector(r) + from, sum.data(), count * sizeof(Real));
    }
  }

  void wake() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t short_bytes = 1u << 13, piece_bytes = 1u << 14;

  struct offer {
    void* data = nullptr;
    std::size_t size = 0;
  };
  struct alignas(64) seat {
    std::uint64_t meetings = 0;  // the owner's count; what it laid out last is at the one before
    std::atomic<std::uint64_t> came{0};
    std::array<offer, 2> offers;
    alignas(64) std::array<std::array<std::byte, short_bytes>, 2> copies;
  };

  [[nodiscard]] seat& seat_of(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const seat& seat_of(int rank) const {
    return seats_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t turn_of(int rank) const { return (seat_of(rank).meetings - 1) % 2; }

  // Comes, and returns how many arrivals make this meeting complete. The last one wakes sleepers:
  // whoever counts itself asleep after that sees that all have arrived.
  std::uint64_t arrive(int rank) {
    seat& mine = seat_of(rank);
    mine.came = ++mine.meetings;
    const std::uint64_t all = ranks_ * mine.meetings;
    if (++arrived_ == all && sleepers_ > 0) wake();
    return all;
  }

  // out <- (x_0 + x_1 + ... + x_{p-1}) / p, from left to right
  template <class Real, class Vector>
  void sum_in_order(Real* out, std::size_t n, const Vector& of) const {
    if (n == 0) return;
    std::memcpy(out, of(0), n * sizeof(Real));
    for (std::size_t r = 1; r < ranks_; ++r) {
      const Real* x = of(r);
      for (std::size_t i = 0; i < n; ++i) out[i] += x[i];
    }
    for (std::size_t i = 0; i < n; ++i) out[i] /= static_cast<Real>(ranks_);
  }

  std::vector<seat> seats_;
  const std::uint64_t ranks_;
  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
