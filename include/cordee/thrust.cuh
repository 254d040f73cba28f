// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Thrust's algorithms on a stream. No other header includes this one, so that only programs that
// use Thrust compile it.
//
//   thrust::transform(thrust_policy(s), thrust_begin(x), thrust_end(x), thrust_begin(y), op{});
//
// The same text runs on the host for a CPU's stream. An algorithm that returns a value waits for
// the GPU, so it cannot be captured; the others can.
#pragma once

#include <cstddef>
#include <cstdint>

#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/zip_iterator.h>

#include <cordee/core/span_on.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/cuda.cuh>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

/// Scratch of an algorithm, from the stream's allocator and in its order.
struct thrust_allocator {
  using value_type = char;
  cuda::stream stream;
  char* allocate(std::ptrdiff_t size) {
    return static_cast<char*>(stream.allocate(static_cast<std::size_t>(size)));
  }
  void deallocate(char* memory, std::size_t) { stream.release(memory); }
};

struct flag_is_clear {
  const std::int32_t* flag;
  template <class T>
  CORDEE_HOST_DEVICE bool operator()(const T&) const {
    return flag == nullptr || *flag == 0;
  }
};

}  // namespace detail::device

/// Runs an algorithm in the stream's order; the host does not wait for it.
inline auto thrust_policy(const cuda::stream& s) {
  return thrust::cuda::par_nosync(detail::device::thrust_allocator{s}).on(s.handle);
}
/// The same for a CPU's stream: the algorithm runs in the calling thread.
inline auto thrust_policy(const cpu::stream&) { return thrust::host; }

/// A span as a range of Thrust's. On a GPU the iterators are thrust::device_ptr, whose values the
/// host cannot take for its own. They are not named begin and end, by which range-for and
/// std::ranges would read a GPU's memory number by number.
template <class T, class D>
auto thrust_begin(span_on<T, D> x) {
  if constexpr (D::host_memory)
    return x.data;
  else
    return thrust::device_pointer_cast(x.data);
}
/// One past the last element, see thrust_begin.
template <class T, class D>
auto thrust_end(span_on<T, D> x) {
  return thrust_begin(x) + static_cast<std::ptrdiff_t>(x.size);
}
/// Several spans of equal size as a zip iterator over tuples of one number of each. With
/// thrust::make_zip_function a function takes these numbers as its arguments.
template <class D, class... T>
  requires(sizeof...(T) > 1)
auto thrust_begin(span_on<T, D>... x) {
  return thrust::make_zip_iterator(thrust_begin(x)...);
}
/// One past the last tuple, see thrust_begin.
template <class D, class... T>
  requires(sizeof...(T) > 1)
auto thrust_end(span_on<T, D>... x) {
  return thrust::make_zip_iterator(thrust_end(x)...);
}

/// The predicate of thrust::transform_if that is true unless the step is skipped: Thrust's kernels
/// do not test the flag of a predicated stream, as the library's do.
template <class S>
auto unless_skipped(const S& s) {
  if constexpr (requires { s.skip; })
    return detail::device::flag_is_clear{s.skip};
  else
    return detail::device::flag_is_clear{nullptr};
}

}  // namespace cordee::inline CORDEE_ABI
