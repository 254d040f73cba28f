// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A device that records work: what was handed over once, launch by launch, is handed over again as
// one. What launches carried then, memory and numbers, they carry whenever it is replayed.
#pragma once

#include <concepts>

#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

/// `record_work(s, f)` is what f hands over to s, in order; nothing of it runs. f waits for
/// nothing, copies from and to memory of the device or pinned alone, and an event that it records
/// is nobody else's. Memory that s lends meanwhile belongs to the recording. `replay` is in stream
/// order.
template <class D>
concept Records =
    Device<D> && std::copyable<typename D::recording> &&
    requires(const D d, typename D::stream s, const typename D::recording r, void (*f)()) {
      { d.record_work(s, f) } -> std::same_as<typename D::recording>;  // throws cordee::error
      { d.replay(r, s) } -> std::same_as<void>;
    };

}  // namespace cordee::inline CORDEE_ABI
