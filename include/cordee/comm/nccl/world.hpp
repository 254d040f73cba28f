// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank of a nccl::launch has: its line to the others, its GPU, a communicator a lane.
//
// The local rank picks the GPU. That no two ranks have the same one is looked at before NCCL is
// begun, which would hang or fail without saying who.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <ifaddrs.h>

#include <cordee/comm/machine.hpp>
#include <cordee/comm/nccl/channel.hpp>
#include <cordee/comm/nccl/meets.hpp>
#include <cordee/comm/transport.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class nccl_world {
 public:
  /// `device`: the GPU to use; -1: the one of the local rank.
  template <Meets Where>
  nccl_world(Where where, std::chrono::milliseconds deadline, int device)
      : deadline(deadline), here_(where.here()) {
    expects(here_.size > 0 && here_.rank < here_.size, "nccl: a rank beyond the number of ranks");
    meet(where);
    try {
      begin(device);
    } catch (const std::exception& e) {
      fail(e.what());
      leave();
      throw;
    }
  }
  nccl_world(const nccl_world&) = delete;
  nccl_world& operator=(const nccl_world&) = delete;

  [[nodiscard]] int rank() const { return here_.rank; }
  [[nodiscard]] int size() const { return here_.size; }
  [[nodiscard]] const failure& first() const { return others_->first; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] int workers() const { return workers_; }
  [[nodiscard]] nccl_channel& at(int lane) const { return *lanes_[static_cast<std::size_t>(lane)]; }

  /// Tells every rank why the run has failed; the first cause counts.
  void fail(const std::string& cause) { others_->fail(cause); }

  /// Leaves, and returns when all have, or when after a failure the grace is over: then it is the
  /// launcher's to end who is stuck.
  [[gnu::cold]] void leave() {
    others_->leave();
    auto calm = guest::clock::now(), said = calm;
    for (std::string who; !(who = others_->absent()).empty();) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      others_->attend();
      const auto now = guest::clock::now();
      if (!first().happened()) calm = now;
      const bool over = now - calm >= grace(deadline);
      if (!over && now - said < deadline) continue;
      std::fprintf(stderr, "cordee: rank %d has ended, and waits for %s\n", rank(), who.c_str());
      if (over) return;
      said = now;
    }
    if (first().happened()) return;
    for (const auto& lane : lanes_)
      if (lane) lane->finish();
  }

  const std::chrono::milliseconds deadline;

 private:
  // What ranks know of each other, beside their machines.
  struct seat {
    char device[32];
    std::array<ncclUniqueId, lane_count> ids;  // of rank 0
  };

  template <class Where>
  [[gnu::cold]] void meet(Where& where) {
    std::uint64_t run = 0;
    if (here_.rank == 0) {
      if (where.port() == 0) run = std::random_device{}();
      host_.emplace(here_.size, where.port(), run, deadline);
      where.publish({host_->port(), run, names_of_this_machine()});
    }
    const auto start = guest::clock::now();
    line way;
    for (std::string asked; way.over();) {
      auto at = here_.rank == 0 ? meeting_point{host_->port(), run, {"127.0.0.1"}} : where.find();
      if (at) {
        asked = at->str();
        const greeting mine{at->run, here_.rank, here_.size};
        way = guest::arrive(at->names, at->port, mine);
      }
      if (guest::clock::now() - start > deadline)
        throw error(text("rank ", here_.rank, " waited ", deadline.count(),
                         " ms for rank 0 to answer",
                         asked.empty() ? ", and was not told where" : " at port and machine ",
                         asked, ": it did not start, or cannot be reached from here"));
      if (way.over()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    others_.emplace(here_, std::move(way));
  }

  [[gnu::cold]] void begin(int device) {
    const auto cards =
        read_all<machine_card>(others_->gather(as_words(machine_card::mine()), deadline));
    const machine local = machine::of(here_.rank, cards);
    workers_ = local.share();

    device_ = device >= 0 ? device : device_of(local.before);
    cuda_check(cudaSetDevice(device_), text("cudaSetDevice of GPU ", device_));
    seat taken{};
    cuda_check(cudaDeviceGetPCIBusId(taken.device, sizeof taken.device, device_),
               "cudaDeviceGetPCIBusId");
    if (here_.rank == 0)
      for (ncclUniqueId& id : taken.ids) nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const auto seats = read_all<seat>(others_->gather(as_words(taken), deadline));
    check_apart(cards, seats);
    for (int lane = 0; lane < lane_count; ++lane) {
      const auto k = static_cast<std::size_t>(lane);
      lanes_[k] = std::make_unique<nccl_channel>(*others_, here_, lane, device_, deadline,
                                                 seats.front().ids[k]);
    }
  }

  // Of a rank that its launcher lets see one GPU alone, that one.
  [[nodiscard]] int device_of(int counted) const {
    const int local =
        told_local_rank([](const char* name) { return std::getenv(name); }).value_or(counted);
    int gpus = 0;
    cuda_check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
    if (gpus == 1) return 0;
    if (local >= gpus)
      throw error(text("rank ", here_.rank, " is rank ", local, " of its machine, which has ", gpus,
                       " GPUs: start at most so many ranks there"));
    return local;
  }

  // Alike on every rank, so that all of them say it.
  static void check_apart(const std::vector<machine_card>& cards, const std::vector<seat>& seats) {
    for (std::size_t b = 0; b < cards.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (cards[a].same_machine(cards[b]) && std::strcmp(seats[a].device, seats[b].device) == 0)
          throw error(text("ranks ", a, " and ", b, " have the same GPU, ", seats[a].device, " of ",
                           cards[a].name,
                           ", which NCCL does not bear: start one rank a GPU, or "
                           "run them as threads, which may share one (threads::launch)"));
  }
  template <class T>
  static std::vector<T> read_all(const std::vector<std::string>& words) {
    std::vector<T> all;
    for (const std::string& one : words) all.push_back(from_words<T>(one));
    return all;
  }

  // Its name, which others may know, its addresses, and what it calls itself.
  [[gnu::cold]] static std::vector<std::string> names_of_this_machine() {
    std::vector<std::string> all{machine_card::mine().name};
    ifaddrs* found = nullptr;
    if (getifaddrs(&found) == 0) {
      for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
        char words[INET_ADDRSTRLEN];
        const auto& where = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
        if (inet_ntop(AF_INET, &where, words, sizeof words) != nullptr &&
            std::strcmp(words, "127.0.0.1") != 0)
          all.emplace_back(words);
      }
      freeifaddrs(found);
    }
    all.emplace_back("127.0.0.1");
    return all;
  }

  const standing here_;
  int device_ = 0, workers_ = 1;
  std::optional<host> host_;  // of rank 0
  std::optional<guest> others_;
  std::array<std::unique_ptr<nccl_channel>, lane_count> lanes_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
