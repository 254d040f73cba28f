// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What simulated ranks share: their clocks, the messages that travel, and the first failure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>

#include <cordee/comm/error_context.hpp>
#include <cordee/comm/failure.hpp>
#include <cordee/comm/simulated/contended_exchange.hpp>
#include <cordee/comm/simulated/critical_path.hpp>
#include <cordee/comm/simulated/fibers.hpp>
#include <cordee/comm/simulated/ideal_exchange.hpp>
#include <cordee/comm/simulated/machine.hpp>
#include <cordee/comm/simulated/probes.hpp>
#include <cordee/comm/simulated/simulation.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class simulated_world {
 public:
  simulated_world(int ranks, const simulation_options& given)
      : options(given),
        first_failure(ranks),
        ranks_(static_cast<std::size_t>(ranks)),
        ideal_(given.network, ranks, given.on_transfer),
        fibers_(given.stack_bytes) {
    if (given.contended) contended_.emplace(*given.contended, ranks);
  }

  simulated_world(const simulated_world&) = delete;
  simulated_world& operator=(const simulated_world&) = delete;
  ~simulated_world() { ends_ = true; }

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] device::operation_counts& work_of(int rank) { return state_of(rank).work; }

  /// Effects: f() will run as a fiber of the rank from that time on; its exception fails the run.
  template <class F>
  std::size_t start(int rank, const critical_path& begin, F f) {
    tasks_.push_back({.rank = rank, .clock = begin});
    return fibers_.start([this, rank, f = std::move(f)] {
      run_part(rank, [&] {
        f();
        count_work(rank);
      });
      task& own = tasks_[fibers_.current()];
      own.ended = true;
      if (own.joined_by != no_fiber) fibers_.wake(own.joined_by);
    });
  }
  /// Effects: runs all fibers to their end.
  void run() {
    for (;;) {
      fibers_.run();
      if (answer_probe()) continue;
      if (contended_ && contended_->advance([this](const auto& send, const auto& receive,
                                                   const critical_path& end) {
            finish(send.fiber, end, 0);
            finish(receive.fiber, end, send.rounds);
            if (options.on_transfer)
              options.on_transfer({send.rank, receive.rank, send.size,
                                   std::max(send.posted.seconds, receive.posted.seconds),
                                   end.seconds});
          }))
        continue;
      const auto stuck =
          std::find_if(tasks_.begin(), tasks_.end(), [](const task& t) { return t.waits; });
      if (stuck == tasks_.end()) return;
      fail(stuck->rank, describe_deadlock(*stuck));
    }
  }
  /// Effects: f() as a second fiber of the rank, which runs first, beside g().
  template <class F, class G>
  void concurrently(int rank, const F& f, const G& g) {
    const std::size_t own = fibers_.current();
    const std::size_t other = start(rank, tasks_[own].clock, [&f] { f(); });
    fibers_.yield();
    const std::exception_ptr thrown = run_part(rank, g);
    join(other);
    if (thrown) std::rethrow_exception(thrown);
    throw_if_failed(rank);
  }
  /// Effects: blocks the running fiber until another has ended.
  void join(std::size_t other) {
    if (ends_) return;
    if (!tasks_[other].ended) {
      tasks_[other].joined_by = fibers_.current();
      fibers_.suspend();
    }
    clock() = later(clock(), tasks_[other].clock);
  }

  /// Blocks until a message is pending on the context, and returns its sender: of several messages
  /// that of the one that was sent first.
  int probe_any(int rank, int context, std::span<const int> expected) {
    throw_if_failed(rank);
    task& t = tasks_[fibers_.current()];
    probes_.add(fibers_.current(), rank, context, expected);
    wait(t);
    return t.sender;
  }

  template <Device D>
  void exchange(int rank, int context, std::span<const send_op<D>> out,
                std::span<const recv_op<D>> in) {
    throw_if_failed(rank);
    if (out.empty() && in.empty()) return;
    count_work(rank);
    for (const send_op<D>& m : out) expects_peer("simulated", m.peer, size());
    for (const recv_op<D>& m : in) expects_peer("simulated", m.peer, size());
    for (const send_op<D>& m : out) {
      ++state_of(rank).sent_messages;
      state_of(rank).sent_bytes += m.bytes.size;
    }
    task& t = tasks_[fibers_.current()];
    const posted_side side{fibers_.current(), rank, t.clock, t.rounds};
    if (contended_) {
      t.pending = out.size() + in.size();
      contended_->post<D>(side, context, out, in);
      while (t.pending > 0) wait(t);
    } else {
      const auto [end, rounds] = ideal_.exchange<D>(
          side, context, out, in, [&] { wait(t); }, [this](std::size_t fiber) { wake(fiber); });
      t.clock = end;
      t.rounds = rounds;
    }
    ++t.rounds;
  }

  /// The clock of the running fiber.
  [[nodiscard]] critical_path& clock() { return tasks_[fibers_.current()].clock; }
  /// Effects: the reductions that the rank's device has counted take their time.
  void count_work(int rank) {
    rank_state& own = state_of(rank);
    const std::uint64_t reduced = own.work.reduced_bytes - own.timed_bytes;
    own.timed_bytes = own.work.reduced_bytes;
    clock().reduced_bytes += reduced;
    clock().seconds += static_cast<double>(reduced) * options.seconds_per_reduced_byte;
  }

  void fail(int rank, const std::string& cause) {
    if (!first_failure.record(rank, cause)) return;
    for (std::size_t id = 0; id < tasks_.size(); ++id) wake(id);
  }

  /// A message that was sent and never received; empty if there is none.
  [[nodiscard]] std::string unreceived() const { return ideal_.unreceived(); }

  [[nodiscard]] simulation result() const {
    simulation all;
    for (const task& t : tasks_) {
      all.path = later(all.path, t.clock);
      all.rounds = std::max(all.rounds, t.rounds);
    }
    for (const rank_state& r : ranks_) {
      all.messages += r.sent_messages;
      all.bytes += r.sent_bytes;
    }
    return all;
  }

  const simulation_options options;
  failure first_failure;

 private:
  static constexpr std::size_t no_fiber = ~std::size_t{0};

  struct task {
    int rank;
    critical_path clock;
    std::uint64_t rounds = 0;
    bool ended = false;
    std::size_t joined_by = no_fiber;
    bool waits = false;       // for messages
    std::size_t pending = 0;  // messages of its exchange that have not arrived, with contention
    int sender = -1;          // which probe_any found
  };
  struct rank_state {
    device::operation_counts work{};
    std::uint64_t timed_bytes = 0, sent_messages = 0, sent_bytes = 0;
  };

  /// f(); what it throws fails the run, and is returned, since a fiber must not be switched inside
  /// of a handler.
  template <class F>
  std::exception_ptr run_part(int rank, const F& f) {
    try {
      f();
    } catch (const boost::context::detail::forced_unwind&) {  // the fiber is destroyed
      throw;
    } catch (const std::exception& e) {
      fail(rank, e.what());
      return std::current_exception();
    } catch (...) {
      fail(rank, "threw something that is not a std::exception");
      return std::current_exception();
    }
    return {};
  }

  rank_state& state_of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// No fiber is ready, so no message will be sent before the next time at which one arrives:
  /// answers the fiber in probe_any that has the earliest message. Returns whether there was one.
  bool answer_probe() {
    if (probes_.empty()) return false;
    const double limit =
        contended_ ? contended_->next_time() : std::numeric_limits<double>::infinity();
    const auto found = probes_.answer(limit, [this](int rank, int context) {
      return contended_ ? contended_->first_sent(rank, context) : ideal_.first_sent(rank, context);
    });
    if (!found) return false;
    tasks_[found->first].sender = found->second;
    wake(found->first);
    return true;
  }

  /// The running fiber, whose task is `t`, stops until a message has arrived or the run has failed.
  void wait(task& t) {
    t.waits = true;
    fibers_.suspend();
    throw_if_failed(t.rank);
  }
  /// A message of a fiber has arrived, with contention.
  void finish(std::size_t id, const critical_path& end, std::uint64_t rounds) {
    task& t = tasks_[id];
    t.clock = later(t.clock, end);
    t.rounds = std::max(t.rounds, rounds);
    if (--t.pending == 0) wake(id);
  }
  void wake(std::size_t id) {
    if (std::exchange(tasks_[id].waits, false)) fibers_.wake(id);
  }

  void throw_if_failed(int rank) const {
    if (ends_) throw error("simulated: the run has ended");
    if (first_failure.happened())
      throw error(concat("rank ", rank, " aborted: ", first_failure.cause()));
  }

  /// What a fiber waits for, and which rank's part it is.
  [[nodiscard, gnu::cold]] std::pair<std::string, int> awaited(const task& t) const {
    std::size_t id = 0;
    while (&tasks_[id] != &t) ++id;
    if (const auto found = probes_.awaited(id, [this](int peer) { return has_left(peer); }))
      return *found;
    return contended_ ? contended_->unmatched(id) : ideal_.unmatched(id);
  }
  [[nodiscard]] bool has_left(int rank) const {
    return std::none_of(tasks_.begin(), tasks_.end(),
                        [&](const task& t) { return t.rank == rank && !t.ended; });
  }
  /// No fiber can go on, and `t` waits: for which rank, and for which one that waits.
  [[nodiscard, gnu::cold]] std::string describe_deadlock(const task& t) const {
    const task* last = &t;
    for (int hop = 0; hop < size(); ++hop) {
      const int peer = awaited(*last).second;
      const auto next = std::find_if(tasks_.begin(), tasks_.end(), [&](const task& other) {
        return other.rank == peer && other.waits;
      });
      if (next == tasks_.end()) break;
      last = &*next;
    }
    const int end = awaited(*last).second;
    const bool left = end >= 0 && has_left(end);
    return concat("rank ", t.rank, " waits for ", awaited(t).first,
                  last == &t ? "" : concat(", which waits in turn for rank ", end),
                  left ? concat(", but rank ", end,
                                " has left the run: every rank must make the same exchanges")
                       : ", and all wait for one another");
  }

  std::deque<task> tasks_;  // by the number of the fiber
  probes probes_;
  bool ends_ = false;  // fibers that have not ended are unwound
  std::vector<rank_state> ranks_;
  ideal_exchange ideal_;
  std::optional<contended_exchange> contended_;
  fibers fibers_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
