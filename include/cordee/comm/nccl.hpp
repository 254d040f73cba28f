// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes with a GPU each, on one machine or on many, over NCCL (component nccl).
//
// Messages travel between GPUs in the order of the stream they are handed over with, those of the
// host's memory by way of the GPU. Every call that hands over waits until it is done, on the thread
// of the courier: so a failure is thrown where it arises, and no wait is without a deadline. A
// message of another size, a rank that throws, leaves, dies or falls silent ends the run with the
// cause on every rank. How NCCL is called is said in nccl/channel.hpp.
#pragma once

#include <bit>
#include <chrono>
#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure.hpp>
#include <cordee/comm/nccl/world.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/cuda_status.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

struct nccl_options {
  /// No rank waits longer for another one; then the run ends with an error that names it. What is
  /// under way on the GPU has that long again to end, but ten seconds at most, and the other ranks
  /// as long: after that this one goes.
  std::chrono::milliseconds deadline{120'000};
  /// The GPU of this rank; -1: the one of its local rank.
  int device = -1;
};

namespace detail {
/// The host's memory goes by way of the GPU's, on a lane's own stream.
class nccl_staging {
 public:
  explicit nccl_staging(nccl_channel& lane) : lane_(lane), s_(lane.own()) {}

  void exchange(nccl_parcels heard, nccl_parcels said) const {
    std::size_t size = 0;
    for (const auto parcels : {heard, said})
      for (const nccl_parcel& p : parcels) size += p.size;
    const cuda_room room(size, s_);
    std::byte* at = room.data();
    const auto there = [&](nccl_parcels here) {
      std::vector<nccl_parcel> all(here.begin(), here.end());
      for (nccl_parcel& p : all) p.data = std::exchange(at, at + p.size);
      return all;
    };
    const auto heard_there = there(heard), said_there = there(said);
    for (std::size_t i = 0; i < said.size(); ++i)
      move(said[i].data, said_there[i].data, said[i].size);
    lane_.exchange(heard_there, said_there, s_);
    for (std::size_t i = 0; i < heard.size(); ++i)
      move(heard_there[i].data, heard[i].data, heard[i].size);
    cuda_check(cudaStreamSynchronize(s_), "cudaStreamSynchronize");
  }

  /// n numbers of `each` bytes.
  void reduce(void* x, std::size_t n, std::size_t each, ncclDataType_t type,
              ncclRedOp_t how) const {
    const cuda_room room(n * each, s_);
    move(x, room.data(), n * each);
    lane_.reduce(room.data(), n, type, how, s_);
    move(room.data(), x, n * each);
    cuda_check(cudaStreamSynchronize(s_), "cudaStreamSynchronize");
  }

 private:
  void move(const void* from, void* to, std::size_t size) const {
    if (size != 0)
      cuda_check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, s_), "cudaMemcpyAsync");
  }

  nccl_channel& lane_;
  cudaStream_t s_;
};
}  // namespace detail

/// The link of one rank of `nccl::launch`.
class nccl {
 public:
  static constexpr bool blocks_host = true;
  static constexpr std::string_view name = "nccl";

  using options = nccl_options;

  /// Runs f(link) in this process, which torchrun, mpirun or srun has started with its like, with
  /// the GPU of its local rank as the current one and its share of the machine's cores as workers,
  /// and returns when all ranks have ended. If one throws or dies, the others give up where they
  /// wait, and the first cause is thrown on every rank: "rank 2: ...".
  template <class F>
  static void launch(const F& f, options with = {}) {
    launch(f, by_address{}, with);
  }
  /// The same for ranks that meet elsewhere: by_file{"/shared/run-17"}, by_link{a link of mpi}.
  template <class F, Meets Where>
  static void launch(const F& f, const Where& where, options with = {}) {
    const auto world = std::make_shared<detail::nccl_world>(where, with.deadline, with.device);
    const cpu::entitlement mine(world->workers());
    detail::take_part(*world, [&] { f(nccl{world, reducer_lane}); });
  }

  [[nodiscard]] int rank() const { return world_->rank(); }
  [[nodiscard]] int size() const { return world_->size(); }
  [[nodiscard]] nccl lane(int k) const {
    expects(k >= 0 && k < lane_count, "nccl: no such lane");
    return nccl{world_, k};
  }

  template <Device D>
    requires detail::CudaStream<typename D::stream>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    channel().exchange(parcels(in), parcels(out), s.handle);
  }

  /// Memory of the host, by way of the GPU's.
  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in, typename D::stream) const {
    detail::nccl_staging(channel()).exchange(parcels(in), parcels(out));
  }

  /// By way of memory that the stream lends.
  template <class Real, Device D>
    requires Lends<typename D::stream>
  void exchange_add(std::span<const to<D>> out, std::span<const from<D>> in,
                    typename D::stream s) const {
    std::size_t size = 0;
    for (const auto& m : in) size += m.bytes.size;
    const lent<std::byte, typename D::stream> room(s, size);
    std::vector<from<D>> heard(in.begin(), in.end());
    std::byte* at = room.data();
    for (from<D>& m : heard) m.bytes.data = std::exchange(at, at + m.bytes.size);
    exchange(out, std::span<const from<D>>(heard), s);
    using cordee::add;  // and the device's
    for (std::size_t i = 0; i < in.size(); ++i)
      add(in[i].bytes.size / sizeof(Real), reinterpret_cast<const Real*>(heard[i].bytes.data),
          reinterpret_cast<Real*>(in[i].bytes.data), s);
  }

  /// The mean over ranks, in place. NCCL's average multiplies each part by 1/p, which rounds unless
  /// p is a power of two; else the sum is divided, once.
  template <std::floating_point Real, Device D>
    requires(D::host_memory || detail::CudaStream<typename D::stream>)
  void mean(span_on<Real, D> x, typename D::stream s) const {
    static_assert(sizeof(Real) == 4 || sizeof(Real) == 8, "nccl::mean: floats and doubles");
    if (size() == 1) return;
    const bool exact = std::has_single_bit(static_cast<unsigned>(size()));
    const auto type = sizeof(Real) == 4 ? ncclFloat32 : ncclFloat64;
    const auto how = exact ? ncclAvg : ncclSum;
    if constexpr (D::host_memory)
      detail::nccl_staging(channel()).reduce(x.data, x.size, sizeof(Real), type, how);
    else
      channel().reduce(x.data, x.size, type, how, s.handle);
    using cordee::divide;  // and the device's
    if (!exact) divide(x.size, static_cast<Real>(size()), x.data, s);
  }

  /// Ends the run: every rank that waits, or ever will, fails with this cause.
  void abandon(const char* why) const { world_->fail(why); }

 private:
  using parcel = detail::nccl_parcel;

  nccl(std::shared_ptr<detail::nccl_world> world, int lane)
      : world_(std::move(world)), lane_(lane) {}

  [[nodiscard]] detail::nccl_channel& channel() const { return world_->at(lane_); }
  template <class Message>
  std::vector<parcel> parcels(std::span<const Message> messages) const {
    std::vector<parcel> all;
    for (const Message& m : messages) {
      detail::expects_peer("nccl", m.peer, size());
      // NCCL reads only what is told, whatever a parcel says.
      all.push_back(parcel{m.peer, const_cast<std::byte*>(m.bytes.data), m.bytes.size});
    }
    return all;
  }

  std::shared_ptr<detail::nccl_world> world_;
  int lane_;
};

}  // namespace cordee::inline CORDEE_ABI
