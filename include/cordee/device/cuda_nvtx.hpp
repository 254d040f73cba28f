// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that marks a run's ranges for NVIDIA's profilers (NVTX; header-only in CUDA's
// toolkit).
#pragma once

#include <cstdint>

#include <nvtx3/nvToolsExt.h>

#include <cordee/core/trace.hpp>

namespace cordee::inline CORDEE_ABI {

/// As a callback of fit, marks step, input, forward, backward, exchange, update and validation as
/// NVTX ranges of host threads; the number of the step or bucket is the payload. A captured step is
/// one launch, so its parts have no ranges. Without a profiler, a range costs a call of an empty
/// function.
///
///   nsys profile --trace cuda,nvtx ./my_program       with   run.fit(feed, 90, nvtx_ranges{});
struct nvtx_ranges {
  ~nvtx_ranges() { detail::core::remove_trace_sink(sink()); }

  /// Starts marking the calling rank's ranges.
  template <class Run>
  void begin_on_all_ranks(Run&, double) {
    detail::core::add_trace_sink(sink());
  }
  /// Stops marking them.
  template <class Run>
  void end_on_all_ranks(Run&) {
    detail::core::remove_trace_sink(sink());
  }

 private:
  static void begin(detail::core::trace_sink&, detail::core::trace_track, const char* name,
                    std::int64_t index) {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name;
    range.payloadType = index < 0 ? NVTX_PAYLOAD_UNKNOWN : NVTX_PAYLOAD_TYPE_INT64;
    range.payload.llValue = index;
    nvtxRangePushEx(&range);
  }
  static void end(detail::core::trace_sink&, detail::core::trace_track) { nvtxRangePop(); }
  // This rank's sink: exchanges interrupted by a throwing fit still report to it.
  static detail::core::trace_sink& sink() {
    thread_local detail::core::trace_sink of_rank{begin, end};
    return of_rank;
  }
};

}  // namespace cordee::inline CORDEE_ABI
