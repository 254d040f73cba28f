// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of one process meet on one lane for a mean over shared memory.
//
//   long:  everybody lays out a pointer; all are there; rank r sums slice r of all vectors, in the
//          order of ranks, divides and writes it to all of them; all are done
//   short: everybody lays out a copy; all are there; everybody sums all copies in the same order
//   GPUs:  as the long one, whatever the length
//
// Every number is read p times and written p times, no more. The order of a sum is that of the
// ranks, so results do not depend on lengths or slices.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/threads/waiting_room.hpp>
#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class round_table {
 public:
  explicit round_table(int ranks)
      : seats_(static_cast<std::size_t>(ranks)), ranks_(static_cast<std::uint64_t>(ranks)) {}

  /// Up to so many bytes everybody sums everything: one meeting instead of two.
  static constexpr bool is_short(std::size_t bytes) { return bytes <= short_bytes; }

  /// Lays out n numbers of this rank. All must `meet` before any are read.
  template <class Real>
  void lay_pointer(int rank, Real* x, std::size_t n) {
    seat& mine = seat_of(rank);
    mine.offers[mine.meetings % 2] = {x,
                                      n * sizeof(Real)};  // nobody reads that of two meetings ago
  }
  /// The same, or a copy of them.
  template <class Real>
  void lay_out(int rank, Real* x, std::size_t n) {
    lay_pointer(rank, x, n);
    seat& mine = seat_of(rank);
    if (n > 0 && is_short(n * sizeof(Real)))
      std::memcpy(mine.copies[mine.meetings % 2].data(), x, n * sizeof(Real));
  }

  /// Waits for all; false if it was given up because of `stop` or after `patience`. Then this rank
  /// has not come, and nobody will read what it laid out.
  template <class Stop>
  bool meet(int rank, steady_clock::duration patience, const Stop& stop) {
    const std::uint64_t all = arrive(rank);
    room_.wait(patience, [&] { return arrived_ >= all || stop(); });
    for (std::uint64_t here = arrived_; here < all;)
      if (arrived_.compare_exchange_weak(here, here - 1)) {
        --seat_of(rank).meetings;  // it came, all the same
        return false;
      }
    return true;
  }

  /// Waits for all who met to have read and written: what is under way ends.
  void part(int rank) {
    const std::uint64_t all = arrive(rank);
    while (arrived_ < all) room_.wait(std::chrono::hours(1), [&] { return arrived_ >= all; });
  }

  /// Who has not come to the meeting that `rank` has just given up.
  [[nodiscard, gnu::cold]] std::vector<int> missing(int rank) const {
    std::vector<int> all;
    for (int other = 0; other < static_cast<int>(ranks_); ++other)
      if (other != rank && seat_of(other).came <= seat_of(rank).meetings) all.push_back(other);
    return all;
  }

  /// The bytes that `other` brought to the meeting that `rank` is at.
  [[nodiscard]] std::size_t brought(int rank, int other) const {
    return seat_of(other).offers[turn_of(rank)].size;
  }

  /// x <- the mean of all copies.
  template <class Real>
  void mean_of_copies(int rank, Real* x, std::size_t n) const {
    const std::vector<const Real*> copies = everybodys<const Real>(
        [turn = turn_of(rank)](const seat& s) -> const void* { return s.copies[turn].data(); });
    mean_in_order<Real>(copies, {&x, 1}, 0, n);
  }

  /// A slice of everybody's vector <- the mean of that slice.
  template <class Real>
  void mean_of_slices(int rank, std::size_t n) const {
    const auto [first, last] = slice<Real>(rank, n);
    mean_in_order<Real>(vectors<Real>(rank), vectors<Real>(rank), first, last);
  }
  /// The same where vectors are on GPUs, maybe not on one: the slices are fetched and brought back.
  template <class Real, class S>
  void mean_of_fetched(int rank, std::size_t n, S s) const {
    const auto [first, last] = slice<Real>(rank, n);
    const std::size_t some = last - first, size = some * sizeof(Real);
    const lent<Real, S> rows(s, seats_.size() * some);  // (ranks, some)
    Real* row = rows.data();
    for (const Real* x : vectors<Real>(rank))
      s.copy(std::exchange(row, row + some), x + first, size);
    mean_of_rows(seats_.size(), some, rows.data(), s);
    for (Real* x : vectors<Real>(rank)) s.copy(x + first, rows.data(), size);
    s.finish();
  }

  void wake() { room_.wake(); }

 private:
  static constexpr std::size_t short_bytes = 1u << 13;
  template <class Real>
  static constexpr std::size_t line = 64 / sizeof(Real);

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

  // Comes, and returns how many arrivals make this meeting complete. The last one wakes sleepers.
  std::uint64_t arrive(int rank) {
    seat& mine = seat_of(rank);
    mine.came = ++mine.meetings;
    const std::uint64_t all = ranks_ * mine.meetings;
    if (++arrived_ == all) wake();
    return all;
  }

  template <class Real>
  [[nodiscard]] std::vector<Real*> vectors(int rank) const {
    return everybodys<Real>([turn = turn_of(rank)](const seat& s) { return s.offers[turn].data; });
  }
  // Where a rank's slice begins and ends; no two ranks write to one cache line.
  template <class Real>
  [[nodiscard]] std::pair<std::size_t, std::size_t> slice(int rank, std::size_t n) const {
    const auto start = [&](int i) {
      const std::size_t first = n * static_cast<std::size_t>(i) / ranks_;
      return i == static_cast<int>(ranks_) ? n : first / line<Real> * line<Real>;
    };
    return {start(rank), start(rank + 1)};
  }
  template <class T, class F>
  [[nodiscard]] std::vector<T*> everybodys(const F& f) const {
    std::vector<T*> all;
    all.reserve(seats_.size());
    for (const seat& s : seats_) all.push_back(static_cast<T*>(f(s)));
    return all;
  }

  // y <- (x_0 + x_1 + ... + x_{p-1}) / p from left to right, for every y of `out`, from `first` to
  // `last`: a line at a time, so that it stays in a register between p reads and the writes.
  template <class Real, class In>
  static void mean_in_order(const std::vector<In*>& in, std::span<Real* const> out,
                            std::size_t first, std::size_t last) {
    constexpr std::size_t width = line<Real>;
    const auto p = static_cast<Real>(in.size());
    for (; first + width <= last; first += width) {
      Real sum[width];
      const Real* x = in[0] + first;
      for (std::size_t k = 0; k < width; ++k) sum[k] = x[k];
      for (std::size_t r = 1; r < in.size(); ++r) {
        x = in[r] + first;
        for (std::size_t k = 0; k < width; ++k) sum[k] += x[k];
      }
      for (std::size_t k = 0; k < width; ++k) sum[k] /= p;
      for (Real* y : out)
        for (std::size_t k = 0; k < width; ++k) y[first + k] = sum[k];
    }
    for (; first < last; ++first) {
      Real sum = in[0][first];
      for (std::size_t r = 1; r < in.size(); ++r) sum += in[r][first];
      for (Real* y : out) y[first] = sum / p;
    }
  }

  std::vector<seat> seats_;
  const std::uint64_t ranks_;
  std::atomic<std::uint64_t> arrived_{0};
  waiting_room room_;
};

/// Parts when it ends, whatever was thrown: nobody may leave while another touches its memory.
struct parting {
  round_table& from;
  int rank;
  ~parting() { from.part(rank); }
};

}  // namespace cordee::inline CORDEE_ABI::detail
