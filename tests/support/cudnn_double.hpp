// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The state of the test double of cuDNN (cudnn_on_host.hpp), which tests set and read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <cudnn_graph.h>

namespace support {

/// One engine; the heuristics return engines in the order of the vectors below.
struct host_engine {
  int index = 0;
  float milliseconds = 1;
  float host_milliseconds = 0;  // to launch it, which counts where the stream is idle
  std::int64_t workspace = 0;
  std::vector<cudnnBackendNumericalNote_t> notes{};
  bool finalises = true, executes = true;
  bool fuses = true;  // has graphs of several operations
};

/// The state of the double: its engines, and counts of what was called.
struct host_cudnn {
  std::vector<host_engine> engines{{}}, fallbacks{};
  bool computes = true;           // else executions are counted, not made
  std::vector<int> executed;      // indices of engines
  int fused = 0;                  // executions of graphs of several operations
  std::size_t bytes = 0;          // of the tensors that executions named
  std::size_t skipped_bytes = 0;  // of these, pixels that no window covers
  float fused_factor = 1;         // times an engine's time, of such graphs
  void (*submit)(cudaStream_t, std::function<void()>) = nullptr;  // null: work runs at once
  int heuristics = 0;                         // finalized heuristics descriptors
  int variant_packs = 0;                      // finalized
  int device = 0;                             // the current device
  int handles = 0, descriptors = 0;           // alive
  double clock = 0;                           // milliseconds
  bool idle = true;                           // whether the stream has no work
  std::size_t memory = std::size_t{1} << 40;  // the largest allocation that succeeds
  cudaError_t last = cudaSuccess;             // until cudaGetLastError
};
host_cudnn& host_state();

}  // namespace support
