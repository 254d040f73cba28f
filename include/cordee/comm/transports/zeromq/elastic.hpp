// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs over ZeroMQ in which ranks come and go:
//
//   memory_checkpoint kept;                            // of this process (component checkpoint)
//   zeromq::launch([&](zeromq comm) {
//     trainer run(model, sgd{}, schedule, ring{comm});
//     loader feed(data, comm, {.global_batch = 256});
//     kept.resume(run);                                // false in the first world
//     run.fit(feed, 90, kept);
//   }, {.elastic = elastic{.smallest = 2}});
//
// When a rank is lost, f throws on all others, as it does without elastic. They agree on the next
// generation of ranks (comm/transports/bootstrap/meeting.hpp), and each calls f again with a new
// communicator. A process that joins, launch({.elastic = elastic{.rendezvous = path, .joins =
// true}}), ends the current world in the same way, and f runs in the next one with it. Ranks are
// renumbered: survivors keep their order, new ones come last. A rank whose own function throws,
// without a failed exchange, ends with that error, and the others continue without it.
#pragma once

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <cordee/comm/transports/bootstrap/membership.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/zeromq/world.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// How a run over ZeroMQ continues when ranks come and go; see the header's top.
struct elastic {
  /// Fewest ranks with which the run continues. Fewer ranks, or no majority of the previous ones
  /// (half, if rank 0 is among them), end it with an error. Range: 1 or more, else usage_error.
  int smallest = 2;
  /// File by which new processes find the run, readable by its owner only. Rank 0 of each
  /// generation writes it, so all hosts that may run rank 0 and all new processes must be able to
  /// access it. Empty: none can join.
  std::string rendezvous{};
  /// Whether this process is a new rank of a run that is already training; it needs no launcher's
  /// variables. Requires `rendezvous`, else usage_error.
  bool joins = false;
  /// How long a world trains before new ranks interrupt it. Each change of ranks repeats the
  /// interrupted step, so allow several steps. Unit: milliseconds. Range: 0 or more, else
  /// usage_error.
  std::chrono::milliseconds settle{2000};
};

namespace detail::comm {

/// How long ranks are awaited that were waited for until the deadline already.
inline constexpr std::chrono::milliseconds stalled_window{1000};

[[gnu::cold]] inline membership_options options_of(const elastic& e,
                                                   std::chrono::milliseconds deadline,
                                                   const std::string& listen) {
  expects(e.smallest >= 1, "elastic: .smallest is 1 or more");
  expects(e.settle.count() >= 0, "elastic: .settle is 0 ms or more");
  expects(!e.joins || !e.rendezvous.empty(),
          "elastic: a process that joins needs .rendezvous, the file that the run writes");
  return {e.smallest, e.rendezvous, e.joins, e.settle, deadline, listen};
}

/// One process's part in an elastic run: body(world) in each of its worlds.
template <Rendezvous R, class Body>
class elastic_run {
 public:
  elastic_run(const elastic& policy, const R& rendezvous, std::chrono::milliseconds deadline,
              const std::string& listen, const Body& body)
      : deadline_(deadline),
        listen_(listen),
        body_(body),
        members_(options_of(policy, deadline, listen)) {
    if (policy.joins) return;
    world_ = std::make_shared<zeromq_world>(rendezvous, deadline, listen);
    members_.found(*world_);
  }

  /// Returns when all ranks have completed body in one world. Throws error where the run cannot go
  /// on, or not with this process.
  [[gnu::cold]] void run() {
    while (true) {
      if (!world_ && !form_next()) return;
      if (complete()) return;
      const bool stalled = world_->first_failure().stalled();
      window_ = stalled ? std::min(stalled_window, deadline_) : deadline_;
      // A stall took a deadline by itself.
      const bool has_trained = clock::now() - begin_ > (stalled ? 2 : 1) * deadline_;
      cause_ = world_->first_failure().cause();
      members_.note_failed(members_.current().members, cause_, has_trained);
      world_.reset();
    }
  }

 private:
  using clock = std::chrono::steady_clock;

  // False where the run has ended, and this rank had completed its part.
  bool form_next() {
    while (true) {
      std::optional<next_world> next;
      try {
        next = members_.meet(window_);
      } catch (const error& e) {
        if (!is_complete_)
          throw error(cause_.empty() ? e.what()
                                     : concat(e.what(), "\n  the last world ended by ", cause_));
        return false;
      }
      try {
        world_ = std::make_shared<zeromq_world>(generation_rendezvous{members_, *next}, deadline_,
                                                listen_);
      } catch (const usage_error&) {
        throw;
      } catch (const std::exception& e) {  // a rank was lost meanwhile
        cause_ = e.what();
        window_ = deadline_;
        members_.note_failed(next->next.members, cause_, false);
        continue;
      }
      members_.form(*next);
      return true;
    }
  }
  // Whether all ranks have completed body in this world. Throws this rank's own failure.
  bool complete() {
    begin_ = clock::now();
    members_.watch(*world_);
    std::exception_ptr thrown;
    try {
      body_(world_);
    } catch (const std::exception& e) {
      thrown = std::current_exception();
      world_->fail(e.what());
    } catch (...) {
      thrown = std::current_exception();
      world_->fail("threw something that is not a std::exception");
    }
    is_complete_ = !thrown;
    const bool is_own = thrown && !world_->has_lost_peers();
    members_.stop_admitting();
    const bool all_have_left = world_->leave_or_fail();
    members_.unwatch();
    if (is_own) std::rethrow_exception(thrown);
    return all_have_left;
  }

  const std::chrono::milliseconds deadline_;
  const std::string listen_;
  const Body& body_;
  membership members_;
  std::shared_ptr<zeromq_world> world_;
  std::chrono::milliseconds window_ = deadline_;
  std::string cause_;
  clock::time_point begin_{};
  bool is_complete_ = false;
};

template <Rendezvous R, class Body>
[[gnu::cold]] void run_elastic(const elastic& policy, const R& rendezvous,
                               std::chrono::milliseconds deadline, const std::string& listen,
                               const Body& body) {
  elastic_run<R, Body>(policy, rendezvous, deadline, listen, body).run();
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
