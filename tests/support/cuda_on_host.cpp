// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// More than 300 lines: a function for each call of the runtime, one after another.
#include "tests/support/cuda_on_host.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

support::host_cuda_state& support::host_cuda_counts() {
  static thread_local host_cuda_state state;
  return state;
}

/// A stream's work by position, and what it waited for.
struct CUstream_st {
  std::size_t submitted = 0, completed = 0;
  struct dependency {
    std::size_t position;
    CUstream_st* of;
    std::size_t until;
  };
  std::vector<dependency> awaited;
  CUgraph_st* capture = nullptr;
  std::size_t captured = 0, joined = 0;  // nodes, and those that another stream waits for

  void complete(std::size_t until) {
    if (completed >= until) return;
    completed = until;
    for (const dependency& d : awaited)
      if (d.position <= until) d.of->complete(d.until);
  }
};
struct CUevent_st {
  CUstream_st* of = nullptr;
  std::size_t position = 0;
  CUgraph_st* capture = nullptr;  // in which it was recorded
};
struct CUgraph_st {
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> branches{};
  std::vector<std::shared_ptr<void>> held{};
};
struct CUgraphExec_st {
  std::vector<std::shared_ptr<void>> held;
};

bool support::capture_node(cudaStream_t s, const std::shared_ptr<void>& held) {
  if (s == nullptr || s->capture == nullptr) return false;
  ++s->captured;
  if (held) s->capture->held.push_back(held);
  return true;
}

namespace {

using support::capture_node, support::host_cuda_counts;

struct block {
  std::size_t size;
  enum { device, pool, pinned } kind;
};
std::recursive_mutex& memory_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}
std::map<const void*, block>& blocks() {
  static std::map<const void*, block> all;
  return all;
}
const block* block_of(const void* p) {
  const std::scoped_lock lock(memory_mutex());
  auto next = blocks().upper_bound(p);
  if (next == blocks().begin()) return nullptr;
  --next;
  const auto* const first = static_cast<const char*>(next->first);
  return static_cast<const char*>(p) < first + next->second.size ? &next->second : nullptr;
}

/// The status of a call: the sticky error, if there is one, else `own`, which becomes the last.
cudaError_t result(cudaError_t own = cudaSuccess) {
  auto& state = host_cuda_counts();
  if (state.sticky) own = state.failure;
  if (own != cudaSuccess) state.last = own;
  return own;
}

void* make(std::size_t size, decltype(block::kind) kind) {
  void* const p = std::calloc(size, 1);
  const std::scoped_lock lock(memory_mutex());
  blocks()[p] = {size, kind};
  return p;
}
cudaError_t submit(cudaStream_t s) {
  if (s != nullptr && !capture_node(s, nullptr)) ++s->submitted;
  return result();
}

std::atomic<int> captures{0};  // in progress, on any thread

struct call_configuration {
  dim3 grid, threads;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local call_configuration configuration;

std::map<const void*, std::string>& kernel_names() {
  static std::map<const void*, std::string> names;
  return names;
}
std::map<const void*, std::size_t> shared_limits;  // of kernels that have opted in
std::mutex shared_limits_mutex;

// As a GPU, which counts the shared memory that a kernel declares itself, here 1 KiB of each.
bool fits_shared_limit(const void* kernel, std::size_t bytes) {
  const std::lock_guard lock(shared_limits_mutex);
  const auto found = shared_limits.find(kernel);
  return found == shared_limits.end() ? bytes + 1024 <= 48 * 1024 : bytes <= found->second;
}

}  // namespace

// What nvcc's host code calls --------------------------------------------------------------------

extern "C" {
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) { return 0; }  // of an inline function that only -O0 emits
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  kernel_names()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 threads, std::size_t shared,
                                     cudaStream_t stream) {
  configuration = {grid, threads, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* threads, std::size_t* shared,
                                       void* stream) {
  *grid = configuration.grid;
  *threads = configuration.threads;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t shared,
                               cudaStream_t s) {
  auto& state = host_cuda_counts();
  if (!fits_shared_limit(reinterpret_cast<const void*>(kernel), shared))
    return result(cudaErrorInvalidValue);
  if (capture_node(s, nullptr)) {
    ++state.captured;
    return result();
  }
  ++state.launches;
  ++state.kernels[kernel_names()[reinterpret_cast<const void*>(kernel)]];
  if (s != nullptr) ++s->submitted;
  return result(state.sticky ? cudaSuccess : std::exchange(state.failure, cudaSuccess));
}
}

// The runtime -------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() {
  auto& state = host_cuda_counts();
  const cudaError_t last = std::exchange(state.last, cudaSuccess);
  return state.sticky ? state.failure : last;
}
cudaError_t cudaPeekAtLastError() {
  auto& state = host_cuda_counts();
  return state.sticky ? state.failure : state.last;
}
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory"
         : e == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                        : "an error of the double";
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = host_cuda_counts().gpus;
  return cudaSuccess;
}
static thread_local int current_gpu = 0;
cudaError_t cudaGetDevice(int* device) {
  *device = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_gpu = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02X:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Double %d", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++host_cuda_counts().device_waits;
  return result(captures > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int priority) {
  host_cuda_counts().priorities.push_back(priority);
  *s = new CUstream_st;
  return result();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  return cudaStreamCreateWithPriority(s, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }  // events may refer to it
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (s != nullptr && s->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  ++host_cuda_counts().waits;
  if (s != nullptr) s->complete(s->submitted);
  return result();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (e->capture != nullptr) {
    if (s->capture == nullptr) {
      s->capture = e->capture;
      e->capture->branches.push_back(s);
    }
    e->of->joined = std::max(e->of->joined, e->position);
    return result();
  }
  if (s->capture != nullptr) return result(cudaErrorStreamCaptureIsolation);
  if (e->of != nullptr) s->awaited.push_back({++s->submitted, e->of, e->position});
  return result();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  *status = s != nullptr && s->capture != nullptr ? cudaStreamCaptureStatusActive
                                                  : cudaStreamCaptureStatusNone;
  return result();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new CUevent_st;
  return result();
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (s != nullptr && s->capture != nullptr)
    *e = {s, s->captured, s->capture};
  else if (s != nullptr)
    *e = {s, s->submitted, nullptr};
  return result();
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (e->capture != nullptr) return result(cudaErrorCapturedEvent);
  if (e->of == nullptr || e->of->completed >= e->position) return result();
  ++host_cuda_counts().polls;
  e->of->complete(e->position);  // by the next query
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  ++host_cuda_counts().waits;
  if (e->of != nullptr) e->of->complete(e->position);
  return result();
}
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  *time = 1;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, std::size_t size) {
  auto& state = host_cuda_counts();
  if (state.used + state.pooled + size > state.memory) return result(cudaErrorMemoryAllocation);
  ++state.allocations;
  state.used += size;
  *p = make(size, block::device);
  return result();
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  const std::scoped_lock lock(memory_mutex());
  host_cuda_counts().used -= blocks().at(p).size;
  blocks().erase(p);
  std::free(p);
  return result();
}
cudaError_t cudaMallocHost(void** p, std::size_t size) {
  *p = make(size, block::pinned);
  return result();
}
cudaError_t cudaFreeHost(void* p) {
  const std::scoped_lock lock(memory_mutex());
  if (p != nullptr) blocks().erase(p);
  std::free(p);
  return result();
}
cudaError_t cudaMallocAsync(void** p, std::size_t size, cudaStream_t s) {
  auto& state = host_cuda_counts();
  const std::size_t from_pool = std::min(size, state.pooled);
  if (state.used + state.pooled + size - from_pool > state.memory)
    return result(cudaErrorMemoryAllocation);
  ++state.pool_calls;
  state.pooled -= from_pool;
  state.used += size;
  *p = make(size, block::pool);
  return submit(s);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  auto& state = host_cuda_counts();
  const std::scoped_lock lock(memory_mutex());
  ++state.pool_calls;
  state.used -= blocks().at(p).size;
  state.pooled += blocks().at(p).size;
  blocks().erase(p);
  std::free(p);
  return submit(s);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const auto& state = host_cuda_counts();
  *total = state.memory;
  *free = state.memory - state.used - state.pooled;
  return result();
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return result();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return result(); }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc* access, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    host_cuda_counts().pool_peers.push_back(access[i].location.id);
  return result();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  ++host_cuda_counts().trims;
  host_cuda_counts().pooled = 0;
  return result();
}

cudaError_t cudaMemcpyAsync(void* out, const void* in, std::size_t size, cudaMemcpyKind,
                            cudaStream_t s) {
  auto& state = host_cuda_counts();
  const bool pageable = block_of(out) == nullptr || block_of(in) == nullptr;
  if (s != nullptr && s->capture != nullptr) {
    if (pageable) return result(cudaErrorStreamCaptureUnsupported);
    return submit(s);
  }
  ++state.copies;
  if (size <= std::size_t{64} * 1024) std::memmove(out, in, size);
  const cudaError_t status = submit(s);
  if (block_of(out) == nullptr) {
    ++state.pageable;
    ++state.waits;
    if (s != nullptr) s->complete(s->submitted);
  }
  return status;
}
cudaError_t cudaMemsetAsync(void* out, int value, std::size_t size, cudaStream_t s) {
  if (s == nullptr || s->capture == nullptr) ++host_cuda_counts().clears;
  if (size <= std::size_t{64} * 1024) std::memset(out, value, size);
  return submit(s);
}

// What CUB asks of a device: an sm_90 of 132 multiprocessors.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void*) {
  *of = {};
  of->binaryVersion = of->ptxVersion = 90;
  of->maxThreadsPerBlock = 1024;
  return result();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor        ? 9
           : attribute == cudaDevAttrComputeCapabilityMinor      ? 0
           : attribute == cudaDevAttrMultiProcessorCount         ? 132
           : attribute == cudaDevAttrMaxThreadsPerMultiProcessor ? 2048
           : attribute == cudaDevAttrMaxSharedMemoryPerBlock     ? 48 * 1024
           : attribute == cudaDevAttrMaxGridDimX                 ? 2147483647
           : attribute == cudaDevAttrWarpSize                    ? 32
                                                                 : 0;
  return result();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   std::size_t, unsigned) {
  *blocks = 2;
  return result();
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** args) {
  return __cudaLaunchKernel(reinterpret_cast<cudaKernel_t>(const_cast<void*>(kernel)),
                            config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                            config->stream);
}
const char* cudaGetErrorName(cudaError_t) { return "an error of the double"; }

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  ++host_cuda_counts().attributes;
  const std::lock_guard lock(shared_limits_mutex);
  shared_limits[kernel] = static_cast<std::size_t>(value);
  return result();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  s->capture = new CUgraph_st{s};
  ++captures;
  s->captured = s->joined = 0;
  return result();
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  *graph = std::exchange(s->capture, nullptr);
  --captures;
  bool joined = true;
  for (CUstream_st* const branch : (*graph)->branches) {
    joined = joined && branch->joined == branch->captured;
    branch->capture = nullptr;
    branch->captured = branch->joined = 0;
  }
  return result(joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->held};
  return result();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t s) {
  ++host_cuda_counts().graph_launches;
  return submit(s);
}
