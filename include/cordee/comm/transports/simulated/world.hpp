// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What simulated ranks share: their clocks, the messages that travel, and the first failure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/simulated/contended_exchange.hpp>
#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/fibers.hpp>
#include <cordee/comm/transports/simulated/ideal_exchange.hpp>
#include <cordee/comm/transports/simulated/machine.hpp>
#include <cordee/comm/transports/simulated/probes.hpp>
#include <cordee/comm/transports/simulated/simulation.hpp>
#include <cordee/comm/transports/simulated/task.hpp>
#include <cordee/comm/transports/simulated/turns.hpp>
#include <cordee/comm/transports/transport.hpp>
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

  /// Effects: f() will run as that fiber of its rank; its exception fails the run.
  template <class F>
  std::size_t start(const simulated_task& begin, F f) {
    const int rank = begin.rank;
    ++state_of(rank).active;
    const std::size_t id = fibers_.start([this, rank, f = std::move(f)]() mutable {
      run_part(rank, [&] {
        f();
        count_work(rank);
      });
      task& own = running();
      own.ended = true;
      --state_of(rank).active;
      if (own.joined_by != task::no_fiber) fibers_.wake(own.joined_by);
    });
    tasks_.resize(std::max(tasks_.size(), id + 1));
    tasks_[id] = begin;
    return id;
  }
  /// Effects: the same beside the running fiber of the rank, from its time on.
  template <class F>
  std::size_t start_beside(int rank, F f) {
    count_work(rank);
    return start({.rank = rank, .clock = clock(), .rounds = running().rounds}, std::move(f));
  }
  /// Effects: runs all fibers to their end.
  void run() {
    for (;;) {
      fibers_.run();
      if (answer_probe()) continue;
      if (!turns_.empty()) {
        wake(turns_.take());
        continue;
      }
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
      fail(stuck->rank, describe_deadlock(static_cast<std::size_t>(stuck - tasks_.begin())));
    }
  }
  /// Effects: f() as a second fiber of the rank, which runs first, beside g().
  template <class F, class G>
  void concurrently(int rank, const F& f, const G& g) {
    const std::size_t other = start_beside(rank, [&f] { f(); });
    fibers_.yield();
    const std::exception_ptr thrown = run_part(rank, g);
    join(other);
    if (thrown) std::rethrow_exception(thrown);
    throw_if_failed(rank);
  }
  /// Effects: blocks the running fiber until another one of its rank has ended, whose number may be
  /// that of a new one then.
  void join(std::size_t id) {
    task &own = running(), &other = tasks_[id];
    if (ends_) return other.ended ? void() : fibers_.unwind(id);
    expects(other.joined_by == task::no_fiber, "simulated: two fibers join one task");
    other.joined_by = fibers_.current();
    count_work(own.rank);
    if (!other.ended) {
      --state_of(own.rank).active;
      fibers_.suspend();
      ++state_of(own.rank).active;
    }
    own.clock = later(own.clock, other.clock);
    own.rounds = std::max(own.rounds, other.rounds);
    fibers_.release(id);
  }

  /// Blocks until a message is pending on the context, and returns its sender: of several messages
  /// that of the one that was sent first.
  int probe_any(int rank, int context, std::span<const int> expected) {
    throw_if_failed(rank);
    task& t = running();
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
    task& t = running();
    const posted_side side{fibers_.current(), rank, t.clock, t.rounds};
    if (contended_) {
      t.pending = out.size() + in.size();
      contended_->post<D>(side, context, out, in);
      while (t.pending > 0) wait(t);
    } else {
      const auto [end, rounds] = ideal_.exchange<D>(
          side, context, out, in, [&] { wait(t); }, [this](std::size_t fiber) { wake(fiber); },
          [&](double time) { await_turn(t, time); });
      t.clock = end;
      t.rounds = rounds;
    }
    ++t.rounds;
  }

  /// The clock of the running fiber.
  [[nodiscard]] critical_path& clock() { return running().clock; }
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
    simulation all{.fibers = tasks_.size()};
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
  using task = simulated_task;
  struct rank_state {
    device::operation_counts work{};
    std::uint64_t timed_bytes = 0, sent_messages = 0, sent_bytes = 0;
    int active = 0;  // fibers that have not ended and join no other
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
  task& running() { return tasks_[fibers_.current()]; }

  /// No fiber is ready, so no message will be sent before the next time at which one arrives:
  /// answers the fiber in probe_any that has the earliest message. Returns whether there was one.
  bool answer_probe() {
    if (probes_.empty()) return false;
    const double limit = contended_ ? contended_->next_time() : turns_.next_time();
    const auto found = probes_.answer(limit, [this](int rank, int context) {
      return contended_ ? contended_->first_sent(rank, context) : ideal_.first_sent(rank, context);
    });
    if (!found) return false;
    tasks_[found->first].sender = found->second;
    wake(found->first);
    return true;
  }

  /// Blocks the running fiber, whose task is `t`, until no other one can use a port of its rank
  /// before that time.
  void await_turn(task& t, double time) {
    if (state_of(t.rank).active < 2) return;
    turns_.add(time, fibers_.current());
    wait(t);
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

  /// Why no fiber can continue, of one that waits.
  [[nodiscard, gnu::cold]] std::string describe_deadlock(std::size_t fiber) const {
    const auto left = [this](int rank) { return has_left(tasks_, rank); };
    const auto awaited = [&](std::size_t id) {
      if (const auto found = probes_.awaited(id, left)) return *found;
      return contended_ ? contended_->unmatched(id) : ideal_.unmatched(id);
    };
    return cordee::detail::comm::describe_deadlock(tasks_, fiber, awaited) +
           fibers_.in_context_of(fiber, [] { return error_context::suffix(); });
  }

  simulated_tasks tasks_;
  probes probes_;
  turns turns_;
  bool ends_ = false;  // fibers that have not ended are unwound
  std::vector<rank_state> ranks_;
  ideal_exchange ideal_;
  std::optional<contended_exchange> contended_;
  fibers fibers_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
