// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A device without memory, for simulations: spans have sizes, and operations count bytes and flops.
//
//   operation    flops    bytes read and written      bytes reduced
//   add            n      3 n w                       n w
//   divide         n      2 n w
//   squares      2 n        n w
//
// n numbers of w bytes; likewise for the other passes of ops/cpu/elementwise.hpp. A reducer's code
// runs unchanged, at the cost of its control flow alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/adl_base.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

/// What operations on a phantom device amount to.
struct operation_counts {
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;          // read and written
  std::uint64_t reduced_bytes = 0;  // added to others: n in the cost model's n gamma
  bool operator==(const operation_counts&) const = default;
};

}  // namespace detail::device

/// A device that counts operations without performing them.
class phantom {
 public:
  static constexpr std::string_view name = "phantom";  ///< Name in logs and checkpoints.
  static constexpr bool host_memory = false;           ///< Whether host code can read the memory.

  /// Operations are found by argument-dependent lookup.
  struct stream : detail::ops::adl_base {
    /// Where operations are counted; null: they are not.
    detail::device::operation_counts* counts = nullptr;

    constexpr stream() = default;
    /// Counts in `c`, which must outlive the stream.
    constexpr explicit stream(detail::device::operation_counts* c) : counts(c) {}

   private:
    friend class phantom;
    void count(std::uint64_t flops, std::uint64_t bytes, std::uint64_t reduced = 0) const {
      if (counts == nullptr) return;
      counts->flops += flops;
      counts->bytes += bytes;
      counts->reduced_bytes += reduced;
    }
    static std::size_t numbers_of(std::span<const segment> table) {
      std::size_t n = 0;
      for (const segment& s : table) n += s.size;
      return n;
    }

    template <class Real, class N>
    friend void convert(std::size_t n, const Real*, N*, stream s) {
      s.count(0, n * (sizeof(Real) + sizeof(N)));
    }
    template <class N>
    friend void add(std::size_t n, const N*, N*, stream s) {
      s.count(n, 3 * n * sizeof(N), n * sizeof(N));
    }
    template <class Real>
    friend void divide(std::size_t n, Real, Real*, stream s) {
      s.count(n, 2 * n * sizeof(Real));
    }
    template <class Real>
    friend void add_then_divide(std::size_t n, Real, const Real*, Real*, stream s) {
      s.count(2 * n, 3 * n * sizeof(Real), n * sizeof(Real));
    }
    template <class Real>
    friend void scale(std::size_t n, Real, Real*, stream s) {
      s.count(n, 2 * n * sizeof(Real));
    }
    template <class Real>
    friend void mix_neighbors(std::size_t n, const Real*, std::span<const double> weights, Real*,
                              stream s) {
      const std::size_t k = weights.size();
      s.count((3 * k + 1) * n, (k + 2) * n * sizeof(Real), k * n * sizeof(Real));
    }
    template <class P, class Real>  // a Precision
    friend void encode(std::size_t n, const Real*, Real, typename P::storage*, typename P::scaling*,
                       Real*, stream s) {
      s.count(4 * n, n * (3 * sizeof(Real) + sizeof(typename P::storage)));
    }
    template <class P, class Real>
    friend void decode(std::size_t n, const typename P::storage*, const typename P::scaling*, Real*,
                       write_mode mode, stream s) {
      const bool adds = mode == write_mode::add;
      s.count(adds ? n : 0, n * ((adds ? 2 : 1) * sizeof(Real) + sizeof(typename P::storage)),
              adds ? n * sizeof(Real) : 0);
    }
    template <class F>  // whose bytes are not known
    friend void for_each(stream s, std::size_t n, const F&) {
      s.count(n, 0);
    }
    template <class F>
    friend void launch_single(stream, const F&) {}
    template <class Real, class Body>  // nor here
    friend void segmented_for(stream s, std::span<const segment> table, const Body&) {
      s.count(numbers_of(table), 0);
    }
    template <class Real>
    friend void segmented_squares(stream s, std::span<const segment> table,
                                  span_on<const Real, phantom>, span_on<double, phantom>) {
      const std::size_t n = numbers_of(table);
      s.count(2 * n, n * sizeof(Real));
    }
    template <class Real>
    friend void segmented_squares(stream s, std::span<const segment> table,
                                  span_on<const Real, phantom>, span_on<double, phantom>,
                                  span_on<const Real, phantom>, span_on<double, phantom>) {
      const std::size_t n = numbers_of(table);
      s.count(4 * n, 2 * n * sizeof(Real));
    }
  };
  struct event {};  ///< Nothing: operations take no time.

  phantom() = default;
  /// Streams count in `counts`, which must outlive them.
  explicit phantom(detail::device::operation_counts& counts) : counts_(&counts) {}

  /// A stream that counts where the device counts.
  [[nodiscard]] stream make_stream() const { return stream{counts_}; }

  /// Always the same address, which no program can read, since spans of one allocation must differ.
  [[nodiscard]] void* allocate(std::size_t) const {
    return reinterpret_cast<void*>(std::uintptr_t{1} << 52);
  }
  /// Does nothing.
  void release(void*) const noexcept {}
  /// Counts `size` bytes read and `size` written.
  void copy(void*, const void*, std::size_t size, stream s) const { s.count(0, 2 * size); }
  /// Counts `size` bytes written.
  void clear(void*, std::size_t size, stream s) const { s.count(0, size); }
  /// Does nothing.
  [[nodiscard]] event record(stream) const { return {}; }
  /// Does nothing.
  void await(stream, event) const {}
  /// Does nothing.
  void finish(stream) const {}

 private:
  detail::device::operation_counts* counts_ = nullptr;
};
static_assert(Device<phantom>);

}  // namespace cordee::inline CORDEE_ABI
