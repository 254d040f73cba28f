// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What cordee/comm/nccl asks of NCCL, on the host, ranks being threads. As NCCL does, it compares
// no sizes: who waits for more than was sent waits until ncclCommAbort, who takes less takes the
// beginning. What a group was told is on its stream only when the communicator is no longer in
// progress; the average is made of parts times 1/p; ranks on one GPU wait for each other for ever.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

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
#define NCCL_CONFIG_INITIALIZER \
  { 0x4e43434c, 1 }

namespace nccl_double {

struct message {
  const void* data;  // of the sender, or of `kept`
  std::size_t size;
  std::shared_ptr<std::vector<char>> kept;
  std::shared_ptr<bool> taken;
};

// The ranks of one id.
struct clique {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;                                // of those who have come
  std::map<std::pair<int, int>, std::deque<message>> way;  // from, to
  struct sum {
    std::map<int, const void*> parts;
    std::size_t size = 0;
    int taken = 0;
  };
  std::map<int, sum> sums;  // by number
  int ending = 0;

  static std::shared_ptr<clique> of(const ncclUniqueId& id) {
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<clique>> known;
    const std::scoped_lock lock(mutex);
    auto& mine = known[std::string(id.internal, sizeof id.internal)];
    if (!mine) mine = std::make_shared<clique>();
    return mine;
  }
};

// What the tests let go wrong: what one rank's next question after its communicator is told.
inline std::atomic<int> failing_rank{-1};
inline std::atomic<ncclResult_t> failing_with{ncclSuccess};

}  // namespace nccl_double

struct ncclComm {
  std::shared_ptr<nccl_double::clique> all;
  int ranks, rank;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::deque<std::function<void()>> in_progress{};  // until it is asked after the second time
  int asked = 0, sums = 0;
  bool begun = false, ending = false;
};
using ncclComm_t = ncclComm*;

namespace nccl_double {

struct operation {
  bool hears;
  void* data;
  std::size_t size;
  int peer;
  cudaStream_t s;
};
struct group {
  bool open = false;
  ncclComm_t comm = nullptr;
  std::vector<operation> told;
};
inline thread_local group mine;

inline constexpr std::size_t buffered = 1 << 16;  // as much may be said before anybody hears

// A group's kernel.
inline void run(clique& all, int rank, const std::vector<operation>& told,
                const std::atomic<bool>& aborted) {
  std::unique_lock lock(all.mutex);
  std::vector<std::shared_ptr<bool>> taken;
  std::deque<operation> hearing;
  for (const operation& o : told) {
    if (o.hears) {
      hearing.push_back(o);
      continue;
    }
    message m{o.data, o.size, {}, std::make_shared<bool>(false)};
    if (o.size <= buffered) {
      const char* const at = static_cast<const char*>(o.data);
      m.kept = std::make_shared<std::vector<char>>(at, at + o.size);
      m.data = m.kept->data();
    } else {
      taken.push_back(m.taken);
    }
    all.way[{rank, o.peer}].push_back(m);
  }
  all.changed.notify_all();
  const auto hear = [&](const operation& o, bool first_of_peer) {
    auto& box = all.way[{o.peer, rank}];
    if (!first_of_peer || box.empty() || box.front().size < o.size) return false;
    copy(o.data, box.front().data, o.size);
    *box.front().taken = true;
    box.pop_front();
    all.changed.notify_all();
    return true;
  };
  while (!aborted) {
    std::set<int> stuck;
    for (std::size_t i = 0; i < hearing.size();)
      if (hear(hearing[i], stuck.count(hearing[i].peer) == 0)) {
        hearing.erase(hearing.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        stuck.insert(hearing[i].peer);
        ++i;
      }
    bool done = hearing.empty();
    for (const auto& t : taken) done = done && *t;
    if (done) return;
    all.changed.wait_for(lock, std::chrono::milliseconds(20));
  }
  for (auto& [between, box] : all.way)  // my memory is mine again
    if (between.first == rank)
      for (message& m : box)
        if (!m.kept) m.size = 0;
}

template <class Real>
void mean_of(const clique::sum& from, Real* out, std::size_t n, ncclRedOp_t how, int ranks) {
  std::vector<Real> total(n);
  const Real part = how == ncclAvg ? static_cast<Real>(1.0 / ranks) : Real{1};
  for (const auto& [rank, x] : from.parts)
    for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<const Real*>(x)[i] * part;
  std::memcpy(out, total.data(), n * sizeof(Real));
}

inline void run_sum(clique& all, int rank, int ranks, int number, void* x, std::size_t n,
                    ncclDataType_t type, ncclRedOp_t how, const std::atomic<bool>& aborted) {
  const std::size_t size = n * (type == ncclFloat64 ? 8 : 4);
  const std::vector<char> copy(static_cast<char*>(x), static_cast<char*>(x) + size);
  std::unique_lock lock(all.mutex);
  clique::sum& mine = all.sums[number];
  mine.parts[rank] = copy.data();
  mine.size = size;
  all.changed.notify_all();
  const auto wait = [&](auto ready) {
    while (!aborted && !ready()) all.changed.wait_for(lock, std::chrono::milliseconds(20));
    return !aborted;
  };
  if (!wait([&] { return static_cast<int>(mine.parts.size()) == ranks; })) return;
  if (type == ncclFloat64)
    mean_of(mine, static_cast<double*>(x), n, how, ranks);
  else
    mean_of(mine, static_cast<float*>(x), n, how, ranks);
  ++mine.taken;
  all.changed.notify_all();
  wait([&] { return mine.taken == ranks; });
}

}  // namespace nccl_double

inline const char* ncclGetErrorString(ncclResult_t r) {
  return r == ncclRemoteError    ? "remote process exited or there was a network error"
         : r == ncclInvalidUsage ? "invalid usage"
                                 : "the double's error";
}
inline const char* ncclGetLastError(ncclComm_t) { return "the double's last words"; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d", ++number);
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  if (config->magic != 0x4e43434c || config->blocking != 0) return ncclInvalidArgument;
  *made = new ncclComm{nccl_double::clique::of(id), ranks, rank};
  const std::scoped_lock lock((*made)->all->mutex);
  (*made)->all->devices.push_back(nccl_double::current);
  return ncclInProgress;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = ncclInProgress;
  if (nccl_double::failing_rank == comm->rank && nccl_double::failing_with != ncclSuccess) {
    *state = nccl_double::failing_with.exchange(ncclSuccess);
    return ncclSuccess;
  }
  const std::scoped_lock lock(comm->all->mutex);
  const std::set<int> apart(comm->all->devices.begin(), comm->all->devices.end());
  if (!comm->begun && static_cast<int>(apart.size()) < comm->ranks) return ncclSuccess;
  comm->begun = true;
  if (comm->ending && comm->all->ending < comm->ranks) return ncclSuccess;
  if (!comm->in_progress.empty() && ++comm->asked % 2 == 1) return ncclSuccess;
  for (const auto& hand_over : comm->in_progress) hand_over();
  comm->in_progress.clear();
  *state = ncclSuccess;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupStart() {
  nccl_double::mine = {};
  nccl_double::mine.open = true;
  return ncclSuccess;
}
inline ncclResult_t nccl_double_tell(const nccl_double::operation& o, ncclComm_t comm) {
  if (!nccl_double::mine.open || o.size == 0 || o.peer < 0 || o.peer >= comm->ranks)
    return ncclInvalidArgument;
  nccl_double::mine.comm = comm;
  nccl_double::mine.told.push_back(o);
  return ncclSuccess;
}
inline ncclResult_t ncclSend(const void* data, std::size_t n, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t s) {
  return nccl_double_tell(
      {false, const_cast<void*>(data), n * (type == ncclUint8 ? 1 : 8), peer, s}, comm);
}
inline ncclResult_t ncclRecv(void* data, std::size_t n, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t s) {
  return nccl_double_tell({true, data, n * (type == ncclUint8 ? 1 : 8), peer, s}, comm);
}
inline ncclResult_t ncclGroupEnd() {
  nccl_double::group told = std::move(nccl_double::mine);
  nccl_double::mine = {};
  if (!told.open) return ncclInvalidUsage;
  if (told.comm == nullptr) return ncclSuccess;
  ncclComm_t const comm = told.comm;
  comm->in_progress.push_back([comm, told = std::move(told.told)] {
    told.front().s->hand_over([all = comm->all, rank = comm->rank, told, aborted = comm->aborted] {
      nccl_double::run(*all, rank, told, *aborted);
    });
  });
  return ncclInProgress;
}
inline ncclResult_t ncclAllReduce(const void* in, void* x, std::size_t n, ncclDataType_t type,
                                  ncclRedOp_t how, ncclComm_t comm, cudaStream_t s) {
  if (in != x) return ncclInvalidArgument;
  comm->in_progress.push_back([=, number = comm->sums++] {
    s->hand_over(
        [=, all = comm->all, rank = comm->rank, ranks = comm->ranks, aborted = comm->aborted] {
          nccl_double::run_sum(*all, rank, ranks, number, x, n, type, how, *aborted);
        });
  });
  return ncclInProgress;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::scoped_lock lock(comm->all->mutex);
  comm->ending = true;
  ++comm->all->ending;
  return ncclInProgress;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->ending) return ncclInvalidUsage;
  delete comm;
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::scoped_lock lock(comm->all->mutex);
    *comm->aborted = true;
    comm->all->changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}
