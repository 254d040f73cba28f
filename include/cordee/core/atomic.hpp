// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the library uses of <atomic>, by the compilers' built-in functions: since C++20 that header
// includes waiting, whose code every program with a pool of threads would compile
// (docs/compile_time.md).
#pragma once

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// As std::memory_order.
struct memory_order {
  static constexpr int relaxed = __ATOMIC_RELAXED, acquire = __ATOMIC_ACQUIRE,
                       release = __ATOMIC_RELEASE, acq_rel = __ATOMIC_ACQ_REL,
                       seq_cst = __ATOMIC_SEQ_CST;
};

/// As std::atomic, of an integer, a bool or a pointer; orders are those of memory_order.
template <class T>
class atomic {
 public:
  constexpr atomic(T value = T{}) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  T operator=(T value) noexcept {  // NOLINT: as std::atomic
    store(value);
    return value;
  }

  [[nodiscard]] T load(int order = memory_order::seq_cst) const noexcept {
    return __atomic_load_n(&value_, order);
  }
  operator T() const noexcept { return load(); }
  void store(T value, int order = memory_order::seq_cst) noexcept {
    __atomic_store_n(&value_, value, order);
  }
  T exchange(T value, int order = memory_order::seq_cst) noexcept {
    return __atomic_exchange_n(&value_, value, order);
  }
  T fetch_add(T value, int order = memory_order::seq_cst) noexcept {
    return __atomic_fetch_add(&value_, value, order);
  }
  T fetch_sub(T value, int order = memory_order::seq_cst) noexcept {
    return __atomic_fetch_sub(&value_, value, order);
  }
  /// May fail though the value is `expected`, which otherwise becomes the value.
  bool compare_exchange_weak(T& expected, T value) noexcept {
    return __atomic_compare_exchange_n(&value_, &expected, value, true, memory_order::seq_cst,
                                       memory_order::seq_cst);
  }
  T operator++(int) noexcept { return fetch_add(1); }  // NOLINT: as std::atomic
  T operator++() noexcept { return fetch_add(1) + 1; }
  T operator--() noexcept { return fetch_sub(1) - 1; }

 private:
  T value_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
