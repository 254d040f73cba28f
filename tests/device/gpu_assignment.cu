// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Over the counting double of the CUDA runtime: no GPU is needed.
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>
#include <cordee/device/gpu_assignment.hpp>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;
using detail::device::assign_gpu;

namespace {

/// What `gpu{}` describes in a thread of its own, after its assignment on a machine of four GPUs.
std::string described(int local_rank, int local_ranks, bool share) {
  host_cuda_counts().gpus = 4;
  std::string text;
  std::thread([&] {
    try {
      (void)assign_gpu(local_rank, local_ranks, share);
      text = gpu().describe();
    } catch (const error& e) {
      text = e.what();
    }
  }).join();
  host_cuda_counts().gpus = 1;
  return text;
}

}  // namespace

TEST_CASE("gpu_assignment: each local rank has a GPU of its own, which its thread's gpu is") {
  for (int rank = 0; rank < 4; ++rank)
    CHECK(described(rank, 4, false) ==
          "Double " + std::to_string(rank) + ", GPU " + std::to_string(rank) + " of 4");
}

TEST_CASE("gpu_assignment: ranks share a GPU on request alone, and it is said") {
  CHECK(described(4, 5, false) ==
        "cuda: 5 ranks on a machine with 4 GPUs: start one rank for each GPU, or ask for sharing");
  CHECK(described(4, 5, true) == "Double 0, GPU 0 of 4, shared by 2 ranks of this machine");
  CHECK(described(3, 5, true) == "Double 3, GPU 3 of 4");
  CHECK(described(7, 9, true) == "Double 3, GPU 3 of 4, shared by 2 ranks of this machine");
  CHECK(described(8, 9, true) == "Double 0, GPU 0 of 4, shared by 3 ranks of this machine");
}
