// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Work on a GPU in words that a host can emulate: a body that every thread of every block of a
// grid runs, and a stream that launches it.
//
//   struct scale {
//     static constexpr int threads = 256;
//     float* x;
//     template <class Block>
//     CORDEE_DEVICE void operator()(Block& b) const { x[b.index() * threads + b.thread()] *= 2; }
//   };
//   s.launch(blocks, scale{x});
//
// A body knows the GPU only through its block, so that its own text runs under nvcc (cuda.cuh) and,
// thread by thread under the sanitizers, in the tests' emulation.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a thread knows of its block. `shared<T>(n)` is room for n numbers that the block's threads
/// share, not initialised: all threads ask alike, in the same order, for no more in total than the
/// body's `shared_bytes()`. `sync` and `sum` are called by all threads of the block or by none;
/// `sum` is made in an order that depends on nothing but the number of threads.
template <class B>
concept Block = requires(B b, float x, double y) {
  { b.thread() } -> std::same_as<int>;         // of this block: 0 .. Body::threads - 1
  { b.index() } -> std::same_as<std::size_t>;  // of the block in the grid
  { b.blocks() } -> std::same_as<std::size_t>;
  { b.sync() } -> std::same_as<void>;
  { b.template shared<float>(1) } -> std::same_as<float*>;
  { b.sum(x) } -> std::same_as<float>;  // the same on every thread
  { b.sum(y) } -> std::same_as<double>;
};

namespace detail {
struct empty_body {
  static constexpr int threads = 32;
  template <class B>
  CORDEE_DEVICE void operator()(B&) const {}
};
}  // namespace detail

/// A stream that lends memory: in stream order, until it is taken back in stream order.
template <class S>
concept Lends = std::copyable<S> && requires(const S s, std::size_t n, void* p) {
  { s.lend(n) } -> std::same_as<void*>;
  { s.take_back(p) } noexcept;
};

/// A base for streams of other namespaces, by which calls with such a stream find cordee's kernels.
struct finds_kernels {};

/// A stream whose work is grids of blocks. `launch(blocks, body)` runs the body in stream order;
/// no blocks, no work. `copy` is between any two memories, and the host waits in `finish`.
template <class S>
concept GridStream = Lends<S> && requires(const S s, std::size_t n, void* p) {
  { s.launch(n, detail::empty_body{}) } -> std::same_as<void>;
  { s.copy(p, p, n) } -> std::same_as<void>;
  { s.finish() } -> std::same_as<void>;
};

/// Bytes of shared memory that a body's blocks need.
template <class Body>
constexpr std::size_t shared_bytes(const Body& body) {
  if constexpr (requires { body.shared_bytes(); })
    return body.shared_bytes();
  else
    return 0;
}

/// Memory of a stream for a few launches.
template <class T, Lends S>
class lent {
 public:
  lent(S s, std::size_t size) : s_(s), data_(static_cast<T*>(s.lend(size * sizeof(T)))) {}
  lent(const lent&) = delete;
  lent& operator=(const lent&) = delete;
  ~lent() { s_.take_back(data_); }
  [[nodiscard]] T* data() const { return data_; }

 private:
  S s_;
  T* data_;
};

/// Blocks of `each` that n things need.
constexpr std::size_t blocks_for(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

namespace detail {

/// f(i) for every i below n; neighbours are neighbours' work, so that memory is read in rows.
template <class F>
struct each_body {
  static constexpr int threads = 256;
  static constexpr bool independent = true;  // no thread waits for another
  static constexpr std::size_t numbers_a_thread = 4;
  std::size_t n;
  F f;

  template <class B>
  CORDEE_DEVICE void operator()(B& b) const {
    const std::size_t stride = b.blocks() * threads;
    for (std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread()); i < n;
         i += stride)
      f(i);
  }
};

}  // namespace detail

/// Calls f(i) for i = 0 .. n-1; f is a device function and may not care about the order.
template <GridStream S, class F>
void for_each(S s, std::size_t n, const F& f) {
  using body = detail::each_body<F>;
  s.launch(blocks_for(n, body::threads * body::numbers_a_thread), body{n, f});
}
/// f(0) by one thread.
template <GridStream S, class F>
void once(S s, const F& f) {
  for_each(s, 1, f);
}

}  // namespace cordee::inline CORDEE_ABI
