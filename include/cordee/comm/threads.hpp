// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process: N workers on one laptop, in one debugger.
//
// A long message is a pointer in the receiver's mailbox: the receiver copies (or adds) straight out
// of the sender's memory, and the sender waits until it has. A short one is a copy there. No wait
// is without a deadline, and the first failure of any rank wakes all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/threads/roll_call.hpp>
#include <cordee/comm/threads/world.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

struct thread_options {
  /// No rank waits longer for another one; then the run ends with an error that names it. All ranks
  /// have that long again to end, but ten seconds at most: after that the process ends.
  std::chrono::milliseconds deadline{120'000};
};

/// The link of one rank of `threads::launch`.
class threads {
 public:
  static constexpr bool blocks_host = true;
  static constexpr std::string_view name = "threads";

  using options = thread_options;

  /// Runs f(link) on `ranks` threads, each with max(1, cores / ranks) workers, and returns when all
  /// have ended. If one throws, the others give up where they wait, and the first cause is thrown:
  /// "rank 2: …". A rank that does not end within the grace after that ends the process.
  template <class F>
  static void launch(int ranks, const F& f, options with = {}) {
    expects(ranks > 0, "threads::launch: at least one rank");
    const auto world = std::make_shared<detail::thread_world>(ranks, with.deadline);
    const int workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
    detail::roll_call ended(ranks);

    std::vector<std::thread> team;
    for (int rank = 0; rank < ranks; ++rank)
      team.emplace_back([&, rank] {
        const cpu::entitlement mine(workers);
        try {
          f(threads{world, rank, reducer_lane});
        } catch (const std::exception& e) {
          world->fail(rank, e.what());
        } catch (...) {
          world->fail(rank, "threw something that is not a std::exception");
        }
        world->leave(rank);
        ended.sign(rank);
      });

    world->await_end(ended);
    for (std::thread& t : team) t.join();
    if (world->failed()) throw error(world->first.in_full());
    if (const std::string why = world->unheard(); !why.empty()) throw error(why);
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return world_->size; }
  [[nodiscard]] threads lane(int k) const {
    expects(k >= 0 && k < lane_count, "threads: no such lane");
    return threads{world_, rank_, k};
  }

  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in, typename D::stream) const {
    transfer(out, in, [](std::byte* at, const std::byte* what, std::size_t size) {
      std::memcpy(at, what, size);
    });
  }

  /// Ranks whose memory is on a GPU: what a rank tells is finished before it is offered, and who
  /// hears it copies from the one memory to the other.
  template <Device D>
    requires GridStream<typename D::stream>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    s.finish();
    transfer(out, in, [s](std::byte* at, const std::byte* what, std::size_t size) {
      s.copy(at, what, size);
      s.finish();
    });
  }

  template <class Real, Device D>
    requires(D::host_memory)
  void exchange_add(std::span<const to<D>> out, std::span<const from<D>> in,
                    typename D::stream) const {
    transfer(out, in, [](std::byte* at, const std::byte* what, std::size_t size) {
      add(size / sizeof(Real), reinterpret_cast<const Real*>(what), reinterpret_cast<Real*>(at),
          cpu::stream{});
    });
  }

  /// First come, first served, on the request lane: see AnySource.
  [[nodiscard, gnu::cold]] int next(std::span<const int> due) const {
    expects(lane_ == request_lane, "threads: who comes first is told on the request lane alone");
    detail::desk& mine = desk_of(rank_);
    const auto gone = [&] {
      const auto left = [&](int peer) { return world_->has_left(checked(peer)); };
      const auto at = std::find_if(due.begin(), due.end(), left);
      return at == due.end() ? -1 : *at;
    };
    const auto over = [&] { return mine.first() >= 0 || gone() >= 0 || world_->failed(); };
    const auto start = detail::steady_clock::now();
    mine.due = due.empty() ? -1 : due.front();
    do mine.room.wait(world_->deadline, over);
    while (due.empty() && !over());
    const int left = gone(), first = mine.first();  // whoever leaves has said what it said
    if (first < 0)
      world_->give_up(rank_, lane_, detail::anybody_of(due, lane_),
                      left >= 0 ? left : mine.due.load(), left >= 0, start, true);
    mine.due = -1;
    return first;
  }

  /// The mean over ranks, in place: one shot over shared memory (threads/round_table.hpp). Sums are
  /// made in the order of ranks.
  template <class Real, Device D>
    requires(D::host_memory)
  void mean(span_on<Real, D> x, typename D::stream) const {
    if (size() == 1) return;
    detail::round_table& table = world_->table(lane_);
    table.lay_out(rank_, x.data, x.size);
    meet(table, bytes(x).size);
    if (table.is_short(bytes(x).size)) return table.mean_of_copies(rank_, x.data, x.size);
    table.mean_of_slices<Real>(rank_, x.size);
    table.part(rank_);
  }

  /// The same between GPUs, or on one.
  template <class Real, Device D>
    requires GridStream<typename D::stream>
  void mean(span_on<Real, D> x, typename D::stream s) const {
    if (size() == 1) return;
    s.finish();
    detail::round_table& table = world_->table(lane_);
    table.lay_pointer(rank_, x.data, x.size);
    meet(table, bytes(x).size);
    const detail::parting last{table, rank_};
    table.mean_of_fetched<Real>(rank_, x.size, s);
  }

  /// Ends the run: every rank that waits, or ever will, fails with this cause.
  void abandon(const char* why) const { world_->fail(rank_, why); }

 private:
  using world = detail::thread_world;

  threads(std::shared_ptr<world> w, int rank, int lane)
      : world_(std::move(w)), rank_(rank), lane_(lane) {}

  // Say everything, hear what is awaited in the order of the list, wait until what is read in my
  // memory has been.
  template <class D, class Consume>
  void transfer(std::span<const to<D>> out, std::span<const from<D>> in, Consume consume) const {
    for (const auto& message : out) checked(message.peer);
    for (const auto& message : in) checked(message.peer);
    std::vector<detail::receipt> awaited(out.size());
    try {
      for (std::size_t i = 0; i < out.size(); ++i) say(out[i], !in.empty(), awaited[i]);
      for (const auto& message : in) hear(message, consume);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (awaited[i].of != nullptr)
          wait(
              out[i].peer, [&] { return awaited[i].done.load(); }, "to take", out[i].bytes.size);
    } catch (...) {
      withdraw(out, awaited);
      throw;
    }
  }

  // Who only speaks waits for the listener, however short it is: nothing else would hold it back.
  template <class D>
  void say(const to<D>& message, bool hears, detail::receipt& awaited) const {
    detail::desk& theirs = desk_of(message.peer);
    detail::mailbox& box = box_at(theirs, rank_);
    const auto what = message.bytes;
    const std::uint64_t turn = lane_ == request_lane ? theirs.turns++ : 0;
    if (D::host_memory && hears && what.size <= short_bytes && box.has_room())
      box.lay_copy(what.data, what.size, turn);
    else
      box.lay(what.data, what.size, awaited, turn);
    theirs.room.wake();
  }

  template <class D, class Consume>
  void hear(const from<D>& message, Consume consume) const {
    const int peer = message.peer;
    const auto here = message.bytes;
    detail::mailbox& box = box_at(desk_of(rank_), peer);
    wait(
        peer, [&] { return box.next() != nullptr; }, "to send", here.size);
    const detail::note& said = *box.next();
    if (said.size != here.size)
      world_->refuse(rank_, text("rank ", rank_, " expects ", here.size, " bytes from rank ", peer,
                                 " on lane ", lane_, ", which sends ", said.size,
                                 ": the ranks disagree on what they exchange"));
    if (!box.take()) give_up(peer, false, "to send", here.size, detail::steady_clock::now());
    if (said.size > 0) consume(here.data, said.data, said.size);
    detail::receipt* const awaited = said.awaited;
    box.drop();
    if (awaited == nullptr) return;
    awaited->done = true;
    desk_of(peer).room.wake();
  }

  // Waits at the own desk.
  template <class Ready>
  void wait(int peer, Ready ready, const char* verb, std::size_t size) const {
    if (ready()) return;
    const auto start = detail::steady_clock::now();
    detail::desk& mine = desk_of(rank_);
    mine.awaited = peer;
    mine.room.wait(world_->deadline,
                   [&] { return ready() || world_->has_left(peer) || world_->failed(); });
    const bool gone = world_->has_left(peer);  // whoever leaves has said what it said
    if (!ready()) give_up(peer, gone, verb, size, start);
    mine.awaited = -1;
  }

  [[noreturn, gnu::cold]] void give_up(int peer, bool gone, const char* verb, std::size_t size,
                                       detail::steady_clock::time_point start) const {
    world_->give_up(rank_, lane_,
                    text("rank ", peer, " ", verb, " ", size, " bytes on lane ", lane_), peer, gone,
                    start);
  }

  // All ranks are at the table, with as many bytes each.
  void meet(detail::round_table& table, std::size_t mine) const {
    const auto left = [&] {
      int peer = 0;
      while (peer < size() && !world_->has_left(peer)) ++peer;
      return peer;
    };
    const auto start = detail::steady_clock::now();
    if (!table.meet(rank_, world_->deadline, [&] { return world_->failed() || left() < size(); })) {
      std::vector<int> who{left()};
      const bool gone = who.front() < size();
      if (!gone) who = table.missing(rank_);
      std::string names;
      for (const int peer : who) names += text(names.empty() ? "" : ", ", "rank ", peer);
      if (names.empty()) names = "all ranks";  // who were here, and have given up
      world_->give_up(rank_, lane_, text(names, " to bring ", mine, " bytes on lane ", lane_),
                      who.empty() ? -1 : who.front(), gone, start);
    }
    for (int peer = 0; peer < size(); ++peer)
      if (const std::size_t theirs = table.brought(rank_, peer); theirs != mine)
        world_->refuse(rank_, text("rank ", rank_, " brings ", mine, " bytes to a mean on lane ",
                                   lane_, ", rank ", peer, " brings ", theirs,
                                   ": the ranks disagree on what they exchange"));
  }

  // Nobody may read my memory once I have thrown: take back what was not taken, wait for the rest.
  template <class D>
  [[gnu::cold]] void withdraw(std::span<const to<D>> out,
                              const std::vector<detail::receipt>& awaited) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      if (awaited[i].of != nullptr && !box_at(desk_of(out[i].peer), rank_).withdraw(awaited[i]))
        while (!awaited[i].done)  // a copy under way: it ends
          desk_of(rank_).room.wait(world_->deadline, [&] { return awaited[i].done.load(); });
  }

  int checked(int peer) const {
    detail::expects_peer("threads", peer, size());
    return peer;
  }
  detail::desk& desk_of(int rank) const { return world_->at(rank, lane_); }
  static detail::mailbox& box_at(detail::desk& desk, int sender) {
    return desk.from[static_cast<std::size_t>(sender)];
  }

  /// Up to so many bytes are copied on their way, so that whoever says them need not wait.
  static constexpr std::size_t short_bytes = 1u << 13;

  std::shared_ptr<world> world_;
  int rank_, lane_;
};

}  // namespace cordee::inline CORDEE_ABI
