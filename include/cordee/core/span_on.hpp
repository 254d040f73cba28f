// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that says in its type which device it lives on.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Where memory lives and in what order work happens. Work handed to a stream runs in order; a
/// default-constructed stream runs in the caller's thread (CPU) or in the device's default order.
template <class D>
concept Device = std::copyable<D> && requires(const D d, typename D::stream s, typename D::event e,
                                              void* p, const void* q, std::size_t n) {
  { d.open() } -> std::same_as<typename D::stream>;
  { d.allocate(n) } -> std::same_as<void*>;  // throws cordee::error
  { d.release(p) } noexcept;
  { d.copy(p, q, n, s) };  // in stream order
  { d.clear(p, n, s) };    // zero bytes, in stream order
  { d.record(s) } -> std::same_as<typename D::event>;
  { d.await(s, e) };  // s does not pass e
  { d.finish(s) };    // the host waits for s
  { D::host_memory } -> std::convertible_to<bool>;
  { D::name } -> std::convertible_to<std::string_view>;
};

/// A pointer, a size, and the device as a type. Converts to std::span only where the host can read.
template <class T, class D>
struct span_on {
  T* data = nullptr;
  std::size_t size = 0;

  [[nodiscard]] constexpr bool empty() const { return size == 0; }
  /// The same memory?
  bool operator==(const span_on&) const = default;
  [[nodiscard]] constexpr span_on subspan(std::size_t offset, std::size_t count) const {
    return {data + offset, count};
  }
  template <std::same_as<T> U = T>  // a template, as nvcc complains of one that would be a copy
  constexpr operator span_on<const U, D>() const  // NOLINT: as std::span does
    requires(!std::is_const_v<U>)
  {
    return {data, size};
  }
  constexpr operator std::span<T>() const  // NOLINT
    requires(D::host_memory)
  {
    return {data, size};
  }
  constexpr T& operator[](std::size_t i) const
    requires(D::host_memory)
  {
    return data[i];
  }
  constexpr T* begin() const
    requires(D::host_memory)
  {
    return data;
  }
  constexpr T* end() const
    requires(D::host_memory)
  {
    return data + size;
  }
};

/// The same memory as bytes.
template <class T, class D>
span_on<std::byte, D> bytes(span_on<T, D> s)
  requires(!std::is_const_v<T>)
{
  return {reinterpret_cast<std::byte*>(s.data), s.size * sizeof(T)};
}
template <class T, class D>
span_on<const std::byte, D> const_bytes(span_on<T, D> s) {
  return {reinterpret_cast<const std::byte*>(s.data), s.size * sizeof(T)};
}

}  // namespace cordee::inline CORDEE_ABI
