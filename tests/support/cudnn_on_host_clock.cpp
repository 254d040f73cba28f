// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime calls beside cuDNN, whose events read the clock of the double of cuDNN. A program
// that links cuda_on_host.cpp has them from there.
#include <utility>

#include <cuda_runtime_api.h>

#include "tests/support/cudnn_on_host.hpp"

using support::host_state;

struct CUevent_st {
  double at = 0;
};

cudaError_t cudaGetLastError() { return std::exchange(host_state().last, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t) { return "an error on the host"; }
cudaError_t cudaGetDevice(int* device) {
  *device = host_state().device;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* made) {
  *made = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  e->at = host_state().clock;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  host_state().idle = true;
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t from, cudaEvent_t to) {
  *time = static_cast<float>(to->at - from->at);
  return cudaSuccess;
}
