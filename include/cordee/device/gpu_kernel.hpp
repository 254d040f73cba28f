// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels and streams of a GPU, as concepts that a host can emulate: a kernel is a function object
// that every thread of every thread block runs, and a stream launches it.
//
//   struct scale_kernel {
//     static constexpr int threads = 256;
//     float* x;
//     template <class Block>
//     CORDEE_DEVICE void operator()(Block& b) const { x[b.index() * threads + b.thread()] *= 2; }
//   };
//   s.launch_kernel(blocks, scale_kernel{x});
//
// A kernel uses the GPU only through its thread block `b`, so the same source is compiled by nvcc
// (device/cuda_kernel.cuh) and runs thread by thread under the sanitizers in the tests' emulation.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/core/config.hpp>
#include <cordee/device/adl_base.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

/// The thread block as one of its threads uses it. `shared<T>(n)` returns n uninitialised numbers
/// of shared memory; requires that all threads call it with the same arguments in the same order,
/// for at most the kernel's `shared_bytes()` in total. `sync` and `sum` are collective: all threads
/// of the block call them, or none. `sum` adds in an order that depends only on the number of
/// threads. `is_last`, collective too, counts the block in a counter of the stream and returns
/// whether it is the last of so many that do: it then reads what these had written before.
template <class B>
concept ThreadBlock = requires(B b, float x, double y, unsigned* counter) {
  { b.thread() } -> std::same_as<int>;          // index in the block: 0 .. Kernel::threads - 1
  { b.index() } -> std::same_as<std::size_t>;   // index of the block in the launch
  { b.blocks() } -> std::same_as<std::size_t>;  // blocks of the launch
  { b.sync() } -> std::same_as<void>;
  { b.template shared<float>(1) } -> std::same_as<float*>;
  { b.sum(x) } -> std::same_as<float>;  // the same on every thread
  { b.sum(y) } -> std::same_as<double>;
  { b.is_last(counter, 1u) } -> std::same_as<bool>;
};

/// A kernel is a parameter of its launch.
inline constexpr std::size_t max_kernel_bytes = 4096;

struct empty_kernel {
  static constexpr int threads = 32;
  template <class Block>
  CORDEE_DEVICE void operator()(Block&) const {}
};

/// A stream with an allocator: memory is valid, in stream order, from `allocate` to `release`.
template <class S>
concept StreamAllocator = std::copyable<S> && requires(const S s, std::size_t n, void* p) {
  { s.allocate(n) } -> std::same_as<void*>;
  { s.release(p) } noexcept;
};

/// A base class for streams of other namespaces: argument-dependent lookup of a call with such a
/// stream then finds the GPU overloads.
struct kernel_adl_base : ops::adl_base {};

}  // namespace detail::device

/// A stream that launches kernels. `launch_kernel(blocks, kernel)` runs the kernel in stream order;
/// zero blocks launch nothing. `copy` copies between any two memories in stream order; `finish`
/// blocks the host until the stream's work is complete. `counters(n)` are for `is_last` of the next
/// kernel: in device memory, and zero whenever no kernel of the stream runs.
template <class S>
concept GpuStream =
    detail::device::StreamAllocator<S> && requires(const S s, std::size_t n, void* p) {
      { s.launch_kernel(n, detail::device::empty_kernel{}) } -> std::same_as<void>;
      { s.copy(p, p, n) } -> std::same_as<void>;
      { s.finish() } -> std::same_as<void>;
      { s.counters(n) } -> std::same_as<unsigned*>;
    };

namespace detail::device {

/// Bytes of shared memory per thread block of the kernel.
template <class Kernel>
constexpr std::size_t shared_bytes(const Kernel& kernel) {
  if constexpr (requires { kernel.shared_bytes(); })
    return kernel.shared_bytes();
  else
    return 0;
}

/// Temporary memory of a stream: `size` uninitialised numbers, released in stream order.
template <class T, StreamAllocator S>
class stream_buffer {
 public:
  stream_buffer(S s, std::size_t size)
      : s_(s), data_(static_cast<T*>(s.allocate(size * sizeof(T)))) {}
  stream_buffer(const stream_buffer&) = delete;
  stream_buffer& operator=(const stream_buffer&) = delete;
  ~stream_buffer() { s_.release(data_); }
  [[nodiscard]] T* data() const { return data_; }

 private:
  S s_;
  T* data_;
};

/// n / each, rounded up: blocks of `each` elements that cover n.
constexpr std::size_t blocks_for(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

/// How often a thread of for_each calls F, on the average. An F whose numbers are few, or which
/// divides, may set one call, which then stands in no loop.
template <class F>
constexpr std::size_t numbers_per_thread() {
  if constexpr (requires { F::numbers_per_thread; })
    return F::numbers_per_thread;
  else
    return 4;
}

/// f(i) for every i < n; adjacent threads take adjacent i, so that memory accesses coalesce.
template <class F>
struct for_each_kernel {
  static constexpr int threads = 256;
  static constexpr bool independent = true;  // no barriers
  static constexpr std::size_t numbers_per_block = threads * numbers_per_thread<F>();
  std::size_t n;
  F f;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    if constexpr (numbers_per_block == threads) {
      if (i < n) f(i);
    } else {
      for (const std::size_t stride = b.blocks() * threads; i < n; i += stride) f(i);
    }
  }
};

}  // namespace detail::device

/// Calls f(i) for i = 0 .. n-1 in any order; f is a device function.
template <GpuStream S, class F>
void for_each(S s, std::size_t n, const F& f) {
  using kernel = detail::device::for_each_kernel<F>;
  s.launch_kernel(detail::device::blocks_for(n, kernel::numbers_per_block), kernel{n, f});
}

namespace detail::device {
using cordee::for_each;  // found by kernel_adl_base
}

namespace detail::ops {
/// Calls f(0) in one thread.
template <GpuStream S, class F>
void launch_single(S s, const F& f) {
  for_each(s, 1, f);
}
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
