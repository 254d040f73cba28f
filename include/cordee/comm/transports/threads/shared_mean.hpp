// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over the ranks of one process on one context, computed in shared memory.
//
//   long:   every rank publishes a pointer; barrier; rank r sums slice r of all vectors in the
//           order of ranks, divides, and writes the result to all of them; barrier
//   short:  every rank publishes a copy; barrier; every rank sums all copies in the same order
//   GPUs:   as long, whatever the length
//   halves: rank r writes the mean of its range to its own vector; a gather copies the others'
//
// Every element is read p times and written p times. The order of summation is that of the ranks,
// so results do not depend on lengths or slices.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/transports/number_range.hpp>
#include <cordee/comm/transports/threads/spin_then_sleep.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/owned_array.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class alignas(64) shared_mean {
 public:
  explicit shared_mean(int ranks)
      : entries_(static_cast<std::size_t>(ranks)), ranks_(static_cast<std::uint64_t>(ranks)) {}

  /// Whether every rank sums everything: one barrier instead of two.
  static constexpr bool is_short(std::size_t bytes) { return bytes <= short_bytes; }

  /// Publishes n elements of this rank. They may be read after enter_barrier.
  template <class Real>
  void publish_pointer(int rank, Real* x, std::size_t n) {
    rank_entry& own = entry_of(rank);
    // The other ranks are at most one barrier behind: two buffers suffice.
    own.published[own.barriers % 2] = {x, n * sizeof(Real)};
  }
  /// The same, or, where short, a copy of them.
  template <class Real>
  void publish(int rank, Real* x, std::size_t n) {
    publish_pointer(rank, x, n);
    rank_entry& own = entry_of(rank);
    if (n > 0 && is_short(n * sizeof(Real)))
      std::memcpy(own.copies[own.barriers % 2].data(), x, n * sizeof(Real));
  }

  /// Blocks until all ranks have entered. Returns false if stop() became true or `timeout` passed
  /// first: then this rank has not entered, and no rank reads what it published.
  template <class Stop>
  bool enter_barrier(int rank, std::chrono::steady_clock::duration timeout, const Stop& stop) {
    const std::uint64_t complete = arrive(rank);
    waiter_.wait(timeout, [&] { return arrivals_ >= complete || stop(); });
    for (std::uint64_t arrivals = arrivals_; arrivals < complete;)
      if (arrivals_.compare_exchange_weak(arrivals, arrivals - 1)) {
        --entry_of(rank).barriers;  // arrived_at keeps the attempt, for missing()
        return false;
      }
    return true;
  }

  /// Blocks until all ranks of the last barrier have read and written. No timeout: each of them is
  /// computing, not waiting.
  void exit_barrier(int rank) {
    const std::uint64_t complete = arrive(rank);
    while (arrivals_ < complete)
      waiter_.wait(std::chrono::hours(1), [&] { return arrivals_ >= complete; });
  }

  /// The ranks that have not come to the barrier that `rank` has just given up.
  [[nodiscard, gnu::cold]] std::vector<int> missing(int rank) const {
    std::vector<int> ranks;
    for (int other = 0; other < static_cast<int>(ranks_); ++other)
      if (other != rank && entry_of(other).arrived_at <= entry_of(rank).barriers)
        ranks.push_back(other);
    return ranks;
  }

  /// The bytes that `other` published for the barrier that `rank` is at.
  [[nodiscard]] std::size_t published_bytes(int rank, int other) const {
    return entry_of(other).published[buffer_of(rank)].size;
  }

  /// x <- the mean of all copies.
  template <class Real>
  void mean_of_copies(int rank, Real* x, std::size_t n) const {
    const std::vector<const Real*> copies =
        collect<const Real>([buffer = buffer_of(rank)](const rank_entry& e) -> const void* {
          return e.copies[buffer].data();
        });
    mean_in_order<Real>(copies, {&x, 1}, 0, n);
  }

  /// This rank's slice of every vector <- the mean of that slice.
  template <class Real>
  void mean_of_slices(int rank, std::size_t n) const {
    const auto [first, last] = slice<Real>(rank, n);
    mean_in_order<Real>(vectors<Real>(rank), vectors<Real>(rank), first, last);
  }
  /// The same where vectors are on GPUs, maybe not on one: by copies to this rank's GPU and back.
  template <class Real, class S>
  void mean_of_gpu_slices(int rank, std::size_t n, S s) const {
    const auto [first, last] = slice<Real>(rank, n);
    mean_of_gpu_vectors<Real>(vectors<Real>(rank), vectors<Real>(rank), first, last, s);
  }

  /// A range of x, this rank's vector, <- the mean of that range, in host memory or on a GPU. The
  /// other ranks may do that with other ranges at the same time.
  template <class Real, class S>
  void mean_of_range(int rank, number_range range, Real* x, S s) const {
    if constexpr (GpuStream<S>)
      mean_of_gpu_vectors<Real>(vectors<Real>(rank), {&x, 1}, range.begin, range.end, s);
    else
      mean_in_order<Real>(vectors<Real>(rank), {&x, 1}, range.begin, range.end);
  }
  /// A range of x <- that range of rank `owner`'s vector.
  template <class Real, class S>
  void copy_range(int rank, int owner, number_range range, Real* x, S s) const {
    const auto* const from =
        static_cast<const Real*>(entry_of(owner).published[buffer_of(rank)].data) + range.begin;
    if (range.size() == 0) return;
    if constexpr (GpuStream<S>)
      s.copy(x + range.begin, from, range.size() * sizeof(Real));
    else
      std::memcpy(x + range.begin, from, range.size() * sizeof(Real));
  }

  void notify_all() { waiter_.notify_all(); }

 private:
  static constexpr std::size_t short_bytes = 1u << 13;
  template <class Real>
  static constexpr std::size_t cache_line = 64 / sizeof(Real);

  struct vector_ref {
    void* data = nullptr;
    std::size_t size = 0;  // bytes
  };
  struct alignas(64) rank_entry {
    std::uint64_t barriers = 0;  // the owner's count; the buffers in use are those of the last one
    core::atomic<std::uint64_t> arrived_at{0};
    std::array<vector_ref, 2> published;
    alignas(64) std::array<std::array<std::byte, short_bytes>, 2> copies;
  };

  [[nodiscard]] rank_entry& entry_of(int rank) { return entries_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const rank_entry& entry_of(int rank) const {
    return entries_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t buffer_of(int rank) const { return (entry_of(rank).barriers - 1) % 2; }

  // Returns how many arrivals complete this barrier. The last one wakes sleepers.
  std::uint64_t arrive(int rank) {
    rank_entry& own = entry_of(rank);
    own.arrived_at = ++own.barriers;
    const std::uint64_t complete = ranks_ * own.barriers;
    if (++arrivals_ == complete) notify_all();
    return complete;
  }

  template <class Real>
  [[nodiscard]] std::vector<Real*> vectors(int rank) const {
    return collect<Real>(
        [buffer = buffer_of(rank)](const rank_entry& e) { return e.published[buffer].data; });
  }
  // The bounds of a rank's slice; no two ranks write to one cache line.
  template <class Real>
  [[nodiscard]] std::pair<std::size_t, std::size_t> slice(int rank, std::size_t n) const {
    const auto start = [&](int i) {
      const std::size_t first = n * static_cast<std::size_t>(i) / ranks_;
      return i == static_cast<int>(ranks_) ? n : first / cache_line<Real> * cache_line<Real>;
    };
    return {start(rank), start(rank + 1)};
  }
  // f(entry) of every rank.
  template <class T, class F>
  [[nodiscard]] std::vector<T*> collect(const F& f) const {
    std::vector<T*> pointers;
    pointers.reserve(entries_.size());
    for (const rank_entry& e : entries_) pointers.push_back(static_cast<T*>(f(e)));
    return pointers;
  }

  // y <- (x_0 + x_1 + ... + x_{p-1}) / p from left to right, for every y of `out`, from `first` to
  // `last`: a cache line at a time, which stays in a register between p reads and the writes.
  template <class Real, class In>
  static void mean_in_order(const std::vector<In*>& in, std::span<Real* const> out,
                            std::size_t first, std::size_t last) {
    constexpr std::size_t width = cache_line<Real>;
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

  // The same of vectors on GPUs, by the stream's GPU.
  template <class Real, class S>
  static void mean_of_gpu_vectors(const std::vector<Real*>& in, std::span<Real* const> out,
                                  std::size_t first, std::size_t last, S s) {
    const std::size_t length = last - first, size = length * sizeof(Real);
    const device::stream_buffer<Real, S> rows(s, in.size() * length);  // (ranks, length)
    Real* row = rows.data();
    for (const Real* x : in) s.copy(std::exchange(row, row + length), x + first, size);
    // for a GPU by argument-dependent lookup: ops/gpu/reduce.hpp
    mean_of_rows(in.size(), length, rows.data(), s);
    for (Real* y : out) s.copy(y + first, rows.data(), size);
    s.finish();
  }

  core::owned_array<rank_entry> entries_;
  const std::uint64_t ranks_;
  core::atomic<std::uint64_t> arrivals_{0};
  spin_then_sleep waiter_;
};

/// Waits at the second barrier when it ends, also by an exception: no rank may return while another
/// one accesses its memory.
struct barrier_guard {
  shared_mean& mean;
  int rank;
  ~barrier_guard() { mean.exit_barrier(rank); }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
