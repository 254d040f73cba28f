// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA graphs as a concept: work that is captured once, launch by launch, and replayed as a whole.
// A replay uses the pointers and numbers that the launches were captured with.
#pragma once

#include <concepts>

#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// `capture(s, f)` returns the work that f submits to s, in order, without running it. Requires: f
/// does not block on the stream, copies only between device and pinned memory, and where another
/// stream waits for an event of s, which makes it part of the capture, s waits for the end of that
/// stream's work before f returns. Memory that s allocates during the capture belongs to the graph.
/// `replay` runs the graph in stream order.
template <class D>
concept GraphCapture =
    Device<D> && std::copyable<typename D::graph> &&
    requires(const D d, typename D::stream s, const typename D::graph graph, void (*f)()) {
      { d.capture(s, f) } -> std::same_as<typename D::graph>;  // throws cordee::error
      { d.replay(graph, s) } -> std::same_as<void>;
    };

}  // namespace cordee::inline CORDEE_ABI::detail::device
