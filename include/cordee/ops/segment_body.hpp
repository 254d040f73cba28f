// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The body of a pass over a table of segments: the fused update of an optimizer, or the numbers
// whose squares are summed per segment. It is a small struct of annotated functions, the same on
// every device:
//
//   template <class Real>
//   struct descent {  // w <- w - lr g, biases at twice the learning rate
//     Real* w;
//     const Real* g;
//     Real learning_rate;
//     CORDEE_HOST_DEVICE descent for_segment(kind what, std::size_t) const {
//       return {w, g, what == kind::bias ? 2 * learning_rate : learning_rate};
//     }
//     template <class At>
//     constexpr void operator()(At at) const { at.put(w, at(w) - learning_rate * at(g)); }
//   };
//   segmented_for<Real>(s, v.segments, descent<Real>{v.weights.data, v.grads.data, lr});
//
// `for_segment(kind, k)` returns the body with the coefficients of segment k of the table (computed
// from norms in device memory, say); it is optional where all segments are alike. The returned body
// is called once for every lane_ref of the segment, unless it has `is_idle()` and that is true.
// operator() is constexpr and not annotated: nvcc then lets a device call it, while it rejects a
// __host__ __device__ function that is instantiated with a SIMD register.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cordee/core/config.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/ops/lane_ref.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class B>
concept PerSegmentBody = requires(const B b) { b.for_segment(kind::weight, std::size_t{}); };
/// The body of a pass over segments of Real: pointers and numbers, since it is a kernel's argument.
template <class B, class Real>
concept SegmentBody = std::is_trivially_copyable_v<B> &&
                      (PerSegmentBody<B> || std::invocable<const B, lane_ref<Real, 1>>);

template <class Body>
CORDEE_HOST_DEVICE auto body_for_segment(const Body& body, kind what, std::size_t k) {
  if constexpr (PerSegmentBody<Body>)
    return body.for_segment(what, k);
  else
    return body;
}
template <class Body>
CORDEE_HOST_DEVICE bool is_idle(const Body& body) {
  if constexpr (requires { body.is_idle(); })
    return body.is_idle();
  else
    return false;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
