// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which GPU a rank uses, by its number among the ranks of its machine.
#pragma once

#include <cuda_runtime_api.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// The calling thread's, once assigned.
struct gpu_assignment {
  int ordinal = -1;  // none yet
  int ranks = 1;     // of this machine on that GPU

  static gpu_assignment& current() {
    thread_local gpu_assignment assigned;
    return assigned;
  }
};

/// Makes GPU local_rank modulo the number of GPUs the calling thread's current one. For launchers,
/// before they call the rank's function. Throws error if the machine has fewer GPUs than ranks,
/// unless `share`: ranks that share a GPU take turns with it, which is slower than one of them.
[[gnu::cold]] inline gpu_assignment assign_gpu(int local_rank, int local_ranks, bool share) {
  expects(0 <= local_rank && local_rank < local_ranks,
          "assign_gpu: local ranks are 0 .. local_ranks - 1");
  int gpus = 0;  // not written where there is no driver
  cuda_check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  if (gpus < 1) cuda_failed(cudaErrorNoDevice, "cudaGetDeviceCount");
  if (local_ranks > gpus && !share)
    throw error(concat("cuda: ", local_ranks, " ranks on a machine with ", gpus, " GPU",
                       gpus == 1 ? "" : "s", ": start one rank for each GPU, or ask for sharing"));
  const int ordinal = local_rank % gpus;
  cuda_check(cudaSetDevice(ordinal), "cudaSetDevice");
  return gpu_assignment::current() = {ordinal, (local_ranks - ordinal + gpus - 1) / gpus};
}

}  // namespace cordee::inline CORDEE_ABI::detail::device
