// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of the double of NCCL, which includes it: collectives. As NCCL's, they compare no lengths, wait
// forever for a rank that makes another one, and add in orders of their own: all-reduces in that of
// ranks, reduce-scatters in that of a ring. Only what is in place is accepted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/support/nccl_double/nccl.h"

namespace nccl_double {

// out <- the contributions' sum or average, of n elements from `begin` on, in the order of a ring
// that ends at `last`.
template <class Real>
void reduce_in_order(const rank_group::sum& from, Real* out, std::size_t begin, std::size_t n,
                     ncclRedOp_t op, int ranks, int last) {
  std::vector<Real> total(n);
  const Real factor = op == ncclAvg ? static_cast<Real>(1.0 / ranks) : Real{1};
  for (int k = 1; k <= ranks; ++k) {
    const auto* x = static_cast<const Real*>(from.contributions.at((last + k) % ranks)) + begin;
    for (std::size_t i = 0; i < n; ++i) total[i] += x[i] * factor;
  }
  std::memcpy(out, total.data(), n * sizeof(Real));
}

enum class collective { all_reduce, reduce_scatter, reduce, all_gather, broadcast };
// A rank's part: reads `in`, writes `out`; n is that of NCCL's call.
struct collective_call {
  collective kind;
  const void* in;
  void* out;
  std::size_t n;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;

  [[nodiscard]] std::size_t width() const { return type == ncclFloat64 ? 8 : 4; }
};

template <class Real>
void reduce_as(const collective_call& c, const rank_group::sum& from, int rank, int ranks) {
  auto* const out = static_cast<Real*>(c.out);
  if (c.kind == collective::all_reduce)
    reduce_in_order(from, out, 0, c.n, c.op, ranks, ranks - 1);
  else if (c.kind == collective::reduce_scatter)
    reduce_in_order(from, out, c.n * static_cast<std::size_t>(rank), c.n, c.op, ranks, rank);
  else if (rank == c.root)
    reduce_in_order(from, out, 0, c.n, c.op, ranks, rank);
}

inline void run_collective(rank_group& all, int rank, int ranks, int number,
                           const collective_call& c, const std::atomic<bool>& aborted) {
  const bool scatters = c.kind == collective::reduce_scatter;
  const std::size_t size = c.n * c.width() * (scatters ? static_cast<std::size_t>(ranks) : 1);
  const std::vector<char> own(static_cast<const char*>(c.in),
                              static_cast<const char*>(c.in) + size);
  std::unique_lock lock(all.mutex);
  rank_group::sum& sum = all.sums[{number, static_cast<int>(c.kind)}];
  sum.contributions[rank] = own.data();
  all.changed.notify_all();
  const auto wait = [&](auto ready) {
    while (!aborted && !ready()) all.changed.wait_for(lock, std::chrono::milliseconds(20));
    return !aborted;
  };
  if (!wait([&] { return static_cast<int>(sum.contributions.size()) == ranks; })) return;
  if (c.kind == collective::broadcast) {
    std::memcpy(c.out, sum.contributions.at(c.root), size);
  } else if (c.kind == collective::all_gather) {
    for (const auto& [k, x] : sum.contributions)
      std::memcpy(static_cast<char*>(c.out) + static_cast<std::size_t>(k) * size, x, size);
  } else if (c.type == ncclFloat64) {
    reduce_as<double>(c, sum, rank, ranks);
  } else {
    reduce_as<float>(c, sum, rank, ranks);
  }
  ++sum.readers;
  all.changed.notify_all();
  wait([&] { return sum.readers == ranks; });
}

}  // namespace nccl_double

// In progress after the call or, in a group, after its end.
inline ncclResult_t nccl_double_collective(const nccl_double::collective_call& call,
                                           ncclComm_t comm, cudaStream_t s) {
  if (call.root < 0 || call.root >= comm->ranks) return ncclInvalidArgument;
  for (const void* const x : {call.in, static_cast<const void*>(call.out)})
    if (!nccl_double::accessible(*comm->all, x)) return ncclUnhandledCudaError;
  nccl_double::group& group = nccl_double::current_group;
  group.comm = group.open ? comm : nullptr;
  if (!nccl_double::computes_means) return ncclInProgress;
  const nccl_double::in_flight kernel(nccl_double::current_gpu(), comm);
  auto& started = group.open ? group.collectives : comm->in_progress;
  started.push_back([=, number = comm->sums++] {
    nccl_double::enqueue(
        s, [=, all = comm->all, rank = comm->rank, ranks = comm->ranks, aborted = comm->aborted] {
          (void)kernel;
          nccl_double::run_collective(*all, rank, ranks, number, call, *aborted);
        });
  });
  return ncclInProgress;
}
inline ncclResult_t ncclAllReduce(const void* in, void* x, std::size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t s) {
  if (in != x) return ncclInvalidArgument;
  if (!nccl_double::accessible(*comm->all, x)) return ncclUnhandledCudaError;
  if (nccl_double::is_registered(*comm, x)) ++nccl_double::registered_means;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(s, &status);
  if (status != cudaStreamCaptureStatusNone) {  // in the graph when no longer in progress
    comm->in_progress.push_back(
        [s, captured = comm->captured] { nccl_double::capture_mean(s, captured); });
    return ncclInProgress;
  }
  nccl_double::capture_mean(s, comm->captured);  // counts it
  return nccl_double_collective({nccl_double::collective::all_reduce, in, x, n, type, op, 0}, comm,
                                s);
}
// In place where `out` is the rank's chunk of `in`, else nowhere near it; so below.
inline ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t s) {
  const nccl_double::collective_call call{
      nccl_double::collective::reduce_scatter, in, out, n, type, op, 0};
  if (static_cast<const char*>(in) + static_cast<std::size_t>(comm->rank) * n * call.width() != out)
    return ncclInvalidArgument;
  return nccl_double_collective(call, comm, s);
}
inline ncclResult_t ncclReduce(const void* in, void* out, std::size_t n, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t s) {
  if (in != out) return ncclInvalidArgument;
  return nccl_double_collective({nccl_double::collective::reduce, in, out, n, type, op, root}, comm,
                                s);
}
inline ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t s) {
  const nccl_double::collective_call call{
      nccl_double::collective::all_gather, in, out, n, type, ncclSum, 0};
  if (static_cast<char*>(out) + static_cast<std::size_t>(comm->rank) * n * call.width() != in)
    return ncclInvalidArgument;
  return nccl_double_collective(call, comm, s);
}
inline ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t n, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t s) {
  if (in != out) return ncclInvalidArgument;
  return nccl_double_collective(
      {nccl_double::collective::broadcast, in, out, n, type, ncclSum, root}, comm, s);
}
