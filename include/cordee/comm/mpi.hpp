// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, on one machine or on many, over Open MPI or MPICH (component mpi).
//
// Messages travel between host memories; those of a GPU are staged, so nothing is asked of the MPI.
// No wait is without a deadline; a message of another size, a rank that throws, leaves or falls
// silent ends the run with the cause on every rank, and whoever does not hear it is killed. How MPI
// is called is said in mpi/world.hpp.
//
// Nothing here changes the layout of another header's type, so the ABI namespace does not name MPI;
// objects made for two MPIs cannot be linked to one of them anyway.
#pragma once

#include <chrono>
#include <climits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure.hpp>
#include <cordee/comm/mpi/world.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI {

struct mpi_options {
  /// No rank waits longer for another one; then the run ends with an error that names it. All ranks
  /// have that long again to end, but ten seconds at most, and a message under way as long: after
  /// that they are killed.
  std::chrono::milliseconds deadline{120'000};
};

/// The link of one rank of `mpi::launch`.
class mpi {
 public:
  static constexpr bool blocks_host = true;
  static constexpr std::string_view name = "mpi";

  using options = mpi_options;

  /// Runs f(link) in this process, which mpirun or srun has started with its like, with its share
  /// of the machine's cores as workers, and returns when all ranks have ended. If one throws, the
  /// others give up where they wait, and the first cause is thrown on every rank: "rank 2: ...". A
  /// rank that does not end within the grace after that (mpi_options) is killed, by MPI_Abort.
  template <class F>
  static void launch(const F& f, options with = {}) {
    const auto world = std::make_shared<detail::mpi_world>(with.deadline);
    const cpu::entitlement mine(world->local.share());
    detail::take_part(*world, [&] { f(mpi{world, reducer_lane}); });
  }

  [[nodiscard]] int rank() const { return world_->rank(); }
  [[nodiscard]] int size() const { return world_->size(); }
  [[nodiscard]] mpi lane(int k) const {
    expects(k >= 0 && k < lane_count, "mpi: no such lane");
    return mpi{world_, k};
  }

  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in, typename D::stream) const {
    thread_local std::vector<detail::mpi_parcel> all;  // no memory is asked for once it is warm
    all.clear();
    for (const auto& m : in)
      all.push_back(checked(detail::mpi_parcel{m.peer, m.bytes.data, m.bytes.size}));
    for (const auto& m : out)  // MPI reads it only, whatever its parameter says
      all.push_back(
          checked(detail::mpi_parcel{m.peer, const_cast<std::byte*>(m.bytes.data), m.bytes.size}));
    const detail::mpi_parcels parcels(all);
    world_->exchange(lane_, parcels.first(in.size()), parcels.subspan(in.size()));
  }

  /// Memory of a GPU, by way of the host's.
  template <Device D>
    requires GridStream<typename D::stream>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    std::size_t said = 0, heard = 0;
    for (const auto& m : out) said += m.bytes.size;
    for (const auto& m : in) heard += m.bytes.size;
    std::vector<std::byte> room(said + heard);
    std::byte* at = room.data();
    std::vector<to<cpu>> out_here;
    std::vector<from<cpu>> in_here;
    for (const auto& m : out) {
      s.copy(at, m.bytes.data, m.bytes.size);
      out_here.push_back({m.peer, {std::exchange(at, at + m.bytes.size), m.bytes.size}});
    }
    s.finish();
    for (const auto& m : in)
      in_here.push_back({m.peer, {std::exchange(at, at + m.bytes.size), m.bytes.size}});
    exchange(std::span<const to<cpu>>(out_here), std::span<const from<cpu>>(in_here),
             cpu::stream{});
    for (std::size_t i = 0; i < in.size(); ++i)
      s.copy(in[i].bytes.data, in_here[i].bytes.data, in[i].bytes.size);
    s.finish();
  }

  /// First come, first served, on the request lane, as far as the MPI's matching is fair: see
  /// AnySource.
  [[nodiscard]] int next(std::span<const int> due) const {
    expects(lane_ == request_lane, "mpi: who comes first is told on the request lane alone");
    for (const int peer : due) detail::expects_peer("mpi", peer, size());
    return world_->next(lane_, due);
  }

  /// Ends the run: every rank that waits, or ever will, fails with this cause.
  void abandon(const char* why) const { world_->fail(why); }

 private:
  mpi(std::shared_ptr<detail::mpi_world> world, int lane) : world_(std::move(world)), lane_(lane) {}

  detail::mpi_parcel checked(const detail::mpi_parcel& p) const {
    detail::expects_peer("mpi", p.peer, size());
    expects(p.size <= INT_MAX, "mpi: a message of 2 GiB or more; use smaller buckets");
    return p;
  }

  std::shared_ptr<detail::mpi_world> world_;
  int lane_;
};

}  // namespace cordee::inline CORDEE_ABI
