// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A test double of the part of NCCL that cordee/comm/nccl uses, on the host, with threads as ranks.
// As NCCL does, it compares no sizes: a receive of more than was sent waits until ncclCommAbort,
// one of less takes the beginning. A group's operations are on its stream only when the
// communicator is no longer in progress, and a captured sum in its graph; the average is a sum of
// multiples by 1/p; ranks on one GPU wait forever; memory of a pool that a peer's GPU may not
// access is an error. The doubles of the runtime beside it say how work is enqueued
// (nccl_double/cuda_runtime_api.h, nccl_counting/nccl.h). Collectives are in collectives.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/support/nccl_double/in_flight.hpp"
#include "tests/support/nccl_double/memory.hpp"

enum ncclResult_t {
  ncclSuccess,
  ncclUnhandledCudaError,
  ncclSystemError,
  ncclInternalError,
  ncclInvalidArgument,
  ncclInvalidUsage,
  ncclRemoteError,
  ncclInProgress
};
enum ncclDataType_t { ncclUint8 = 1, ncclUint64 = 5, ncclFloat32 = 7, ncclFloat64 = 8 };
enum ncclRedOp_t { ncclSum = 0, ncclAvg = 4 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int magic, blocking;
};
#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 28, 9)
#define NCCL_CONFIG_INITIALIZER \
  { 0x4e43434c, 1 }

namespace nccl_double {

struct message {
  const void* data;  // the sender's, or of `copy`
  std::size_t size;
  std::shared_ptr<std::vector<char>> copy;
  std::shared_ptr<bool> received;
};

// The ranks of one id.
struct rank_group {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;                                     // of the ranks that have joined
  std::map<std::pair<int, int>, std::deque<message>> channels;  // by sender and receiver
  struct sum {
    std::map<int, const void*> contributions;
    int readers = 0;
  };
  std::map<std::pair<int, int>, sum> sums;  // by number and kind: others wait forever
  int finalizing = 0;

  static std::shared_ptr<rank_group> of(const ncclUniqueId& id) {
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<rank_group>> groups;
    const std::scoped_lock lock(mutex);
    auto& group = groups[std::string(id.internal, sizeof id.internal)];
    if (!group) group = std::make_shared<rank_group>();
    return group;
  }
};

// Set by tests: the result of one rank's next ncclCommGetAsyncError.
inline std::atomic<int> failing_rank{-1};
inline std::atomic<ncclResult_t> failing_with{ncclSuccess};
// The result of this thread's next ncclMemAlloc.
inline thread_local ncclResult_t failing_allocation = ncclSuccess;
inline thread_local const char* last_error = "the double's last error";

}  // namespace nccl_double

struct ncclComm {
  std::shared_ptr<nccl_double::rank_group> all;
  int ranks, rank;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::deque<std::function<void()>> in_progress{};  // until the second query
  int queries = 0, sums = 0;
  bool initialized = false, finalizing = false;
  std::map<const char*, std::size_t> registered{};
  std::shared_ptr<int> captured = std::make_shared<int>();  // graphs own the others
};
using ncclComm_t = ncclComm*;

namespace nccl_double {

struct operation {
  bool receive;
  void* data;
  std::size_t size;
  int peer;
  cudaStream_t s;
};
struct group {
  bool open = false;
  ncclComm_t comm = nullptr;
  std::vector<operation> operations;
  std::deque<std::function<void()>> collectives;
};
inline thread_local group current_group;

inline constexpr std::size_t buffered = 1 << 16;  // bytes that are sent without a receiver

// Set by tests' launches: communicators that were made.
inline std::atomic<int> communicators{0};
// Set by programs whose ranks are processes: a communicator is complete with this one's rank, and
// nothing arrives from others. Then `ids` are those of the communicators.
inline bool is_only_rank = false;
inline std::vector<std::string> ids;

// As NCCL, which ends a communicator only when the graphs that have captured its collectives are
// destroyed; gives up after ten seconds, so that the test fails and does not hang.
inline void await_graphs(const ncclComm& comm) {
  for (int k = 0; k < 10'000 && comm.captured.use_count() > 1; ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
inline std::atomic<int> aborts{0};            // that have returned
inline std::atomic<int> registered_means{0};  // of memory that was registered

inline bool is_registered(const ncclComm& comm, const void* p) {
  const char* const at = static_cast<const char*>(p);
  auto next = comm.registered.upper_bound(at);
  return next != comm.registered.begin() && (--next, at < next->first + next->second);
}

// A communicator's end deregisters what it has left.
inline void end(const ncclComm* comm) {
  for (const auto& [p, size] : comm->registered) registrable_memory::instance().leave(p, true);
  delete comm;
}

// Whether every rank's GPU may access p.
inline bool accessible(rank_group& all, const void* p) {
  const std::scoped_lock lock(all.mutex);
  for (const int device : all.devices)
    if (!is_accessible(p, device)) return false;
  return true;
}

// A group's kernel.
inline void run(rank_group& all, int rank, const std::vector<operation>& operations,
                const std::atomic<bool>& aborted) {
  std::unique_lock lock(all.mutex);
  std::vector<std::shared_ptr<bool>> unbuffered;
  std::deque<operation> receives;
  for (const operation& o : operations) {
    if (o.receive) {
      receives.push_back(o);
      continue;
    }
    message m{o.data, o.size, {}, std::make_shared<bool>(false)};
    if (o.size <= buffered) {
      const char* const at = static_cast<const char*>(o.data);
      m.copy = std::make_shared<std::vector<char>>(at, at + o.size);
      m.data = m.copy->data();
    } else {
      unbuffered.push_back(m.received);
    }
    all.channels[{rank, o.peer}].push_back(m);
  }
  all.changed.notify_all();
  const auto try_receive = [&](const operation& o, bool first_of_peer) {
    auto& channel = all.channels[{o.peer, rank}];
    if (!first_of_peer || channel.empty() || channel.front().size < o.size) return false;
    copy(o.data, channel.front().data, o.size);
    *channel.front().received = true;
    channel.pop_front();
    all.changed.notify_all();
    return true;
  };
  while (!aborted) {
    std::set<int> blocked;
    for (std::size_t i = 0; i < receives.size();)
      if (try_receive(receives[i], blocked.count(receives[i].peer) == 0)) {
        receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        blocked.insert(receives[i].peer);
        ++i;
      }
    bool done = receives.empty();
    for (const auto& received : unbuffered) done = done && *received;
    if (done) return;
    all.changed.wait_for(lock, std::chrono::milliseconds(20));
  }
  for (auto& [pair, channel] : all.channels)  // aborted: this rank's memory is no longer read
    if (pair.first == rank)
      for (message& m : channel)
        if (!m.copy) m.size = 0;
}

}  // namespace nccl_double

inline const char* ncclGetErrorString(ncclResult_t r) {
  return r == ncclRemoteError    ? "remote process exited or there was a network error"
         : r == ncclInvalidUsage ? "invalid usage"
                                 : "the double's error";
}
inline const char* ncclGetLastError(ncclComm_t) { return nccl_double::last_error; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d", ++number);
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  if (config->magic != 0x4e43434c || config->blocking != 0) return ncclInvalidArgument;
  *comm = new ncclComm{nccl_double::rank_group::of(id), ranks, rank};
  ++nccl_double::communicators;
  if (nccl_double::is_only_rank) nccl_double::ids.emplace_back(id.internal);
  const std::scoped_lock lock((*comm)->all->mutex);
  (*comm)->all->devices.push_back(nccl_double::current_gpu());
  return ncclInProgress;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = ncclInProgress;
  if (nccl_double::failing_rank == comm->rank && nccl_double::failing_with != ncclSuccess) {
    *state = nccl_double::failing_with.exchange(ncclSuccess);
    return ncclSuccess;
  }
  std::unique_lock lock(comm->all->mutex);
  const std::set<int> distinct(comm->all->devices.begin(), comm->all->devices.end());
  const int expected = nccl_double::is_only_rank ? 1 : comm->ranks;
  if (!comm->initialized && static_cast<int>(distinct.size()) < expected) return ncclSuccess;
  comm->initialized = true;
  if (comm->finalizing && comm->all->finalizing < expected) return ncclSuccess;
  if (!comm->in_progress.empty() && ++comm->queries % 2 == 1) return ncclSuccess;
  lock.unlock();  // what is enqueued may run at once
  for (const auto& enqueue : comm->in_progress) enqueue();
  comm->in_progress.clear();
  *state = ncclSuccess;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupStart() {
  nccl_double::current_group = {};
  nccl_double::current_group.open = true;
  return ncclSuccess;
}
inline ncclResult_t nccl_double_post(const nccl_double::operation& o, ncclComm_t comm) {
  if (!nccl_double::current_group.open || o.size == 0 || o.peer < 0 || o.peer >= comm->ranks)
    return ncclInvalidArgument;
  if (!nccl_double::accessible(*comm->all, o.data)) return ncclUnhandledCudaError;
  nccl_double::current_group.comm = comm;
  nccl_double::current_group.operations.push_back(o);
  return ncclSuccess;
}
inline ncclResult_t ncclSend(const void* data, std::size_t n, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t s) {
  return nccl_double_post(
      {false, const_cast<void*>(data), n * (type == ncclUint8 ? 1 : 8), peer, s}, comm);
}
inline ncclResult_t ncclRecv(void* data, std::size_t n, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t s) {
  return nccl_double_post({true, data, n * (type == ncclUint8 ? 1 : 8), peer, s}, comm);
}
inline ncclResult_t ncclGroupEnd() {
  nccl_double::group group = std::move(nccl_double::current_group);
  nccl_double::current_group = {};
  if (!group.open) return ncclInvalidUsage;
  if (group.comm == nullptr) return ncclSuccess;
  ncclComm_t const comm = group.comm;
  for (auto& collective : group.collectives) comm->in_progress.push_back(std::move(collective));
  if (group.operations.empty()) return ncclInProgress;
  const nccl_double::in_flight kernel(nccl_double::current_gpu(), comm);
  comm->in_progress.push_back([comm, kernel, operations = std::move(group.operations)] {
    nccl_double::enqueue(operations.front().s, [all = comm->all, rank = comm->rank, kernel,
                                                operations, aborted = comm->aborted] {
      nccl_double::run(*all, rank, operations, *aborted);
    });
  });
  return ncclInProgress;
}
// Of undefined content, as of the GPU. NCCL takes CUDA's error away.
inline ncclResult_t ncclMemAlloc(void** p, std::size_t size) {
  if (nccl_double::failing_allocation != ncclSuccess)
    return std::exchange(nccl_double::failing_allocation, ncclSuccess);
  if (cudaMalloc(p, size) != cudaSuccess) {
    cudaGetLastError();
    nccl_double::last_error = "Cuda failure 2 'out of memory'";
    return ncclUnhandledCudaError;
  }
  std::memset(*p, 0xff, size);
  nccl_double::registrable_memory::instance().allocate(*p);
  return ncclSuccess;
}
inline ncclResult_t ncclMemFree(void* p) {
  if (!nccl_double::registrable_memory::instance().free(p, nccl_double::is_gpu_idle()))
    return ncclInvalidArgument;
  cudaFree(p);
  return ncclSuccess;
}
inline ncclResult_t ncclCommRegister(const ncclComm_t comm, void* p, std::size_t n, void** handle) {
  comm->registered[static_cast<const char*>(p)] = n;
  *handle = p;
  nccl_double::registrable_memory::instance().enter(p);
  nccl_double::count_registration(true);
  return ncclSuccess;
}
inline ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  nccl_double::registrable_memory::instance().leave(handle, nccl_double::is_gpu_idle());
  nccl_double::count_registration(false);
  return comm->registered.erase(static_cast<const char*>(handle)) == 1 ? ncclSuccess
                                                                       : ncclInvalidArgument;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::scoped_lock lock(comm->all->mutex);
  comm->finalizing = true;
  ++comm->all->finalizing;
  return ncclInProgress;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->finalizing || !comm->registered.empty()) return ncclInvalidUsage;
  nccl_double::await_graphs(*comm);
  nccl_double::end(comm);
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::scoped_lock lock(comm->all->mutex);
    *comm->aborted = true;
    comm->all->changed.notify_all();
  }
  nccl_double::await_graphs(*comm);
  nccl_double::end(comm);
  ++nccl_double::aborts;
  return ncclSuccess;
}

#include "tests/support/nccl_double/collectives.hpp"
