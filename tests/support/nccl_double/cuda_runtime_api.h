// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A test double of the part of the CUDA runtime that cordee/comm/nccl uses, on the host: a stream
// is a thread that executes its queue in order, asynchronously; the default stream is none and
// executes at once. Memory is the host's. As in CUDA, a copy blocks until its stream is done unless
// one side of it is memory of cudaMallocHost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorNoDevice = 100,
  cudaErrorECCUncorrectable = 214,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtReadWrite = 3 };
struct cudaMemAccessDesc {
  struct {
    cudaMemLocationType type;
    int id;
  } location;
  cudaMemAccessFlags flags;
};
#define CUDART_VERSION 13000
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

namespace nccl_double {

// The number of GPUs, and each thread's current one.
inline std::atomic<int> gpus{8};
inline thread_local int current = 0;

class stream {
 public:
  stream() : thread_([this] { run(); }) {
    const std::scoped_lock lock(all_mutex);
    all.insert(this);
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    {
      const std::scoped_lock lock(all_mutex);
      all.erase(this);
    }
    enqueue({});
    thread_.join();
  }
  // Of the current GPU.
  static bool all_idle() {
    const std::scoped_lock lock(all_mutex);
    for (const stream* s : all)
      if (s->gpu_ == current && s->unfinished_ > 0) return false;
    return true;
  }
  void enqueue(std::function<void()> task) {
    const std::scoped_lock lock(mutex_);
    ++unfinished_;
    queue_.push_back(std::move(task));
    changed_.notify_all();
  }
  void finish() {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    enqueue([&] {
      const std::scoped_lock lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const auto task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!task) return;  // by the destructor
      task();
      --unfinished_;
    }
  }
  inline static std::mutex all_mutex;
  inline static std::set<const stream*> all;
  const int gpu_ = current;
  std::atomic<int> unfinished_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

struct event {
  std::shared_ptr<std::atomic<bool>> passed = std::make_shared<std::atomic<bool>>(true);
};

// A few 8-byte words are copied atomically: they may be read at the same time.
inline void copy(void* out, const void* in, std::size_t size) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in);
  if ((size | addresses) % 8 != 0 || size > 512) {
    std::memcpy(out, in, size);
    return;
  }
  for (std::size_t i = 0; i < size / 8; ++i) {
    auto& from = static_cast<std::uint64_t*>(const_cast<void*>(in))[i];
    const std::uint64_t word = std::atomic_ref(from).load(std::memory_order_relaxed);
    std::atomic_ref(static_cast<std::uint64_t*>(out)[i]).store(word, std::memory_order_relaxed);
  }
}

class pinned_memory {
 public:
  static pinned_memory& instance() {
    static pinned_memory memory;
    return memory;
  }
  void add(void* p) {
    const std::scoped_lock lock(mutex_);
    pointers_.insert(p);
  }
  bool remove(void* p) {
    const std::scoped_lock lock(mutex_);
    return pointers_.erase(p) == 1;
  }
  bool has(void* p) {
    const std::scoped_lock lock(mutex_);
    return pointers_.count(p) == 1;
  }

 private:
  std::mutex mutex_;
  std::set<void*> pointers_;
};

// The GPUs' pools: which memory is theirs, and which other GPUs may access it.
class pools {
 public:
  static pools& instance() {
    static pools all;
    return all;
  }
  void add(void* p, std::size_t size) {
    const std::scoped_lock lock(mutex_);
    ++allocations;
    blocks_[static_cast<char*>(p)] = {size, current};
  }
  void remove(void* p) {
    const std::scoped_lock lock(mutex_);
    blocks_.erase(static_cast<char*>(p));
  }
  void share(int owner, int peer) {
    const std::scoped_lock lock(mutex_);
    shared_.insert({owner, peer});
  }
  void unshare() {
    const std::scoped_lock lock(mutex_);
    shared_.clear();
  }
  // Whether GPU `peer` may access p: any memory that is not of a pool.
  bool accessible(const void* p, int peer) {
    const std::scoped_lock lock(mutex_);
    const char* const at = static_cast<const char*>(p);
    auto next = blocks_.upper_bound(const_cast<char*>(at));
    if (next == blocks_.begin() || (--next, at >= next->first + next->second.size)) return true;
    return next->second.owner == peer || shared_.count({next->second.owner, peer}) == 1;
  }
  std::atomic<int> allocations{0};

 private:
  struct block {
    std::size_t size;
    int owner;
  };
  std::mutex mutex_;
  std::map<char*, block> blocks_;
  std::set<std::pair<int, int>> shared_;  // owner and peer
};
inline std::atomic<int> mallocs{0};

// Set by tests, of this thread: bytes that cudaMalloc can return, and that a trim of the pool adds;
// whether another thread captures, so that the GPU cannot be awaited.
inline thread_local std::size_t available = std::size_t{1} << 40, kept_by_pool = 0;
inline thread_local bool captured_elsewhere = false;
inline std::atomic<int> trims{0};

// Set by tests: this thread's means are captured in `graph`, and not run.
inline thread_local bool capturing = false;
inline thread_local std::vector<std::shared_ptr<void>> graph;

// What the double of NCCL asks of this one.
inline int current_gpu() { return current; }
inline bool is_accessible(const void* p, int gpu) { return pools::instance().accessible(p, gpu); }
inline void enqueue(stream* s, std::function<void()> work) { s->enqueue(std::move(work)); }
inline bool is_gpu_idle() { return stream::all_idle(); }
inline constexpr bool computes_means = true;
inline bool capture_mean(stream*, const std::shared_ptr<void>& graph_owns) {
  if (capturing) graph.push_back(graph_owns);
  return capturing;
}
inline std::atomic<int> registered{0}, deregistered{0};
inline void count_registration(bool made) { ++(made ? registered : deregistered); }

struct pool {
  int owner;
};
inline pool default_pools[] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};

}  // namespace nccl_double

using cudaMemPool_t = nccl_double::pool*;
using cudaStream_t = nccl_double::stream*;
using cudaEvent_t = nccl_double::event*;

// There are no kernel launches here whose failure it could return.
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorNotReady           ? "not ready"
         : e == cudaErrorMemoryAllocation ? "out of memory"
         : e == cudaSuccess               ? "no error"
                                          : "the double's error";
}
inline cudaError_t cudaGetDeviceCount(int* n) {
  *n = nccl_double::gpus;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* d) {
  *d = nccl_double::current;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int d) {
  if (d < 0 || d >= nccl_double::gpus) return cudaErrorInvalidDevice;
  nccl_double::current = d;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* out, int size, int d) {
  std::snprintf(out, static_cast<std::size_t>(size), "0000:%02X:00.0", d);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = new nccl_double::stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
  delete s;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (s != nullptr) s->finish();
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  if (nccl_double::captured_elsewhere) return cudaErrorStreamCaptureUnsupported;
  while (!nccl_double::stream::all_idle()) std::this_thread::yield();
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = nccl_double::capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new nccl_double::event;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  e->passed = std::make_shared<std::atomic<bool>>(false);
  s->enqueue([passed = e->passed] { *passed = true; });
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t e) {
  return *e->passed ? cudaSuccess : cudaErrorNotReady;
}
template <class T>
cudaError_t cudaMallocHost(T** p, std::size_t size) {
  *p = static_cast<T*>(std::malloc(size));
  nccl_double::pinned_memory::instance().add(*p);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (!nccl_double::pinned_memory::instance().remove(p)) return cudaErrorInvalidValue;
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** p, std::size_t size) {
  if (size > nccl_double::available) return cudaErrorMemoryAllocation;
  ++nccl_double::mallocs;
  *p = std::malloc(size);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* v) {
  *v = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int d) {
  *pool = &nccl_double::default_pools[d];
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  ++nccl_double::trims;
  nccl_double::available += std::exchange(nccl_double::kept_by_pool, 0);
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = nccl_double::available;
  *total = std::size_t{1} << 40;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    nccl_double::pools::instance().share(pool->owner, access[i].location.id);
  return cudaSuccess;
}
inline cudaError_t cudaMallocAsync(void** p, std::size_t size, cudaStream_t) {
  *p = std::malloc(size);
  nccl_double::pools::instance().add(*p, size);
  return cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  nccl_double::pools::instance().remove(p);
  s->enqueue([p] { std::free(p); });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* out, const void* in, std::size_t size, cudaMemcpyKind,
                                   cudaStream_t s) {
  if (s == nullptr) {
    nccl_double::copy(out, in, size);
    return cudaSuccess;
  }
  s->enqueue([=] { nccl_double::copy(out, in, size); });
  if (!nccl_double::pinned_memory::instance().has(out) &&
      !nccl_double::pinned_memory::instance().has(const_cast<void*>(in)))
    s->finish();
  return cudaSuccess;
}
