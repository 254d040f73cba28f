// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A span whose type names the device that owns its memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Memory and streams of a device. Operations on a stream run in order; a default-constructed
/// stream runs in the caller's thread (CPU) or is the device's default stream.
template <class D>
concept Device = std::copyable<D> && requires(const D d, typename D::stream s, typename D::event e,
                                              void* p, const void* q, std::size_t n) {
  { d.make_stream() } -> std::same_as<typename D::stream>;
  { d.allocate(n) } -> std::same_as<void*>;  // throws cordee::error
  { d.release(p) } noexcept;
  { d.copy(p, q, n, s) };  // in stream order
  { d.clear(p, n, s) };    // zero bytes, in stream order
  { d.record(s) } -> std::same_as<typename D::event>;
  { d.await(s, e) };  // later work of s waits for e
  { d.finish(s) };    // blocks the host until s is done
  { D::host_memory } -> std::convertible_to<bool>;
  { D::name } -> std::convertible_to<std::string_view>;
};

/// A pointer, a size, and the device as a type. Converts to std::span if the host can read the
/// memory.
template <class T, class D>
struct span_on {
  T* data = nullptr;     ///< Address of the first element, in device memory.
  std::size_t size = 0;  ///< Number of elements, not of bytes.

  /// Whether `size` is 0.
  [[nodiscard]] constexpr bool empty() const { return size == 0; }
  /// Whether both are the same memory, not the same values.
  bool operator==(const span_on&) const = default;
  /// `count` elements from `offset` on. Requires that they exist, which is not checked.
  [[nodiscard]] constexpr span_on subspan(std::size_t offset, std::size_t count) const {
    return {data + offset, count};
  }
  /// The same elements, read-only; implicit.
  template <std::same_as<T> U = T>  // a template: nvcc warns of a plain conversion to the same type
  constexpr operator span_on<const U, D>() const  // NOLINT: as std::span does
    requires(!std::is_const_v<U>)
  {
    return {data, size};
  }
  /// The same elements for host code; implicit, only on devices with host memory.
  constexpr operator std::span<T>() const  // NOLINT
    requires(D::host_memory)
  {
    return {data, size};
  }
  /// Element i, unchecked; only on devices with host memory.
  constexpr T& operator[](std::size_t i) const
    requires(D::host_memory)
  {
    return data[i];
  }
  /// The first element; only on devices with host memory.
  constexpr T* begin() const
    requires(D::host_memory)
  {
    return data;
  }
  /// One past the last element; only on devices with host memory.
  constexpr T* end() const
    requires(D::host_memory)
  {
    return data + size;
  }
};

/// Returns the same memory as bytes, which are const if the numbers are.
template <class T, class D>
auto bytes(span_on<T, D> s) {
  using byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return span_on<byte, D>{reinterpret_cast<byte*>(s.data), s.size * sizeof(T)};
}

}  // namespace cordee::inline CORDEE_ABI
