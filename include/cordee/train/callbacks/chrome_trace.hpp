// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that writes a timeline of all ranks in Chrome's Trace Event Format, for
// ui.perfetto.dev and chrome://tracing: a process for each rank, with the threads
//
//   compute    step: input, forward, backward, wait for exchange, update; validation
//   exchange   the exchange of each bucket, with its number
//
// Times are the host's; with simulated ranks they are virtual. GPU work shows only as launches: for
// its profiler see device/cuda_nvtx.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/device/external_memory.hpp>
#include <cordee/train/callbacks/step_log.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// The ranges of one rank. Its threads share it.
class trace_recorder : public core::trace_sink {
 public:
  struct event {
    const char* name;
    std::int64_t index;
    double begin, end;  // seconds
    core::trace_track track;
  };

  const int rank;

  explicit trace_recorder(int of_rank) : rank(of_rank) {
    core::trace_sink::begin = [](core::trace_sink& s, core::trace_track track, const char* name,
                                 std::int64_t index) {
      static_cast<trace_recorder&>(s).open(track, name, index);
    };
    core::trace_sink::end = [](core::trace_sink& s, core::trace_track track) {
      static_cast<trace_recorder&>(s).close(track);
    };
  }

  /// Forgets all events; time is 0 now, virtual time where the run began.
  template <class Communicator>
  void start(const Communicator& comm) {
    (void)take();
    const core::scoped_lock lock(mutex_);
    start_ = clock::now();
    if constexpr (comm::HasVirtualTime<Communicator>) {
      virtual_clock_ = core::owned_ptr<Communicator>::make(comm);
      virtual_now_ = [](const void* c) { return static_cast<const Communicator*>(c)->now(); };
    }
  }
  /// The events that have ended, in the order of their beginnings; removes all.
  [[nodiscard]] std::vector<event> take() {
    const core::scoped_lock lock(mutex_);
    for (auto& open : open_) open.clear();
    std::vector<event> out = std::exchange(events_, {});
    std::erase_if(out, [](const event& e) { return e.end < 0; });
    return out;
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] double now() const {
    if (virtual_now_ != nullptr) return virtual_now_(virtual_clock_.get());
    return std::chrono::duration<double>(clock::now() - start_).count();
  }
  void open(core::trace_track track, const char* name, std::int64_t index) {
    const core::scoped_lock lock(mutex_);
    open_[static_cast<std::size_t>(track)].push_back(events_.size());
    events_.push_back({name, index, now(), -1, track});
  }
  void close(core::trace_track track) {
    const core::scoped_lock lock(mutex_);
    auto& open = open_[static_cast<std::size_t>(track)];
    if (open.empty()) return;  // begun before start()
    events_[open.back()].end = now();
    open.pop_back();
  }

  core::mutex mutex_;
  clock::time_point start_;
  device::external_memory virtual_clock_;  // a copy of the communicator, if it has one
  double (*virtual_now_)(const void*) = nullptr;
  std::vector<event> events_;
  std::array<std::vector<std::size_t>, 2> open_;  // indices of events, by track
};

/// A rank's events as lines of JSON.
[[gnu::cold]] inline std::string trace_lines(const std::vector<trace_recorder::event>& events,
                                             int rank) {
  const auto metadata_event = [&](const char* what, int thread, const std::string& name) {
    return concat("{\"ph\": \"M\", \"pid\": ", rank, ", \"tid\": ", thread, ", \"name\": \"", what,
                  "\", \"args\": {\"name\": \"", name, "\"}},\n");
  };
  std::string out = metadata_event("process_name", 0, concat("rank ", rank)) +
                    metadata_event("thread_name", 0, "compute") +
                    metadata_event("thread_name", 1, "exchange");
  for (const trace_recorder::event& e : events) {
    const std::string times =  // in microseconds
        concat(", \"ts\": ", decimal::fixed(e.begin * 1e6, 3),
               ", \"dur\": ", decimal::fixed((e.end - e.begin) * 1e6, 3));
    out += concat("{\"ph\": \"X\", \"pid\": ", rank,
                  ", \"tid\": ", e.track == core::trace_track::exchange ? 1 : 0, times,
                  ", \"name\": \"", e.name, "\", \"args\": {");
    if (e.index >= 0)
      out +=
          concat(e.track == core::trace_track::exchange ? "\"bucket\": " : "\"step\": ", e.index);
    out += "}},\n";
  }
  return out;
}

/// Every rank's text on rank 0, by rank. Collective.
template <class Communicator>
std::vector<std::string> gather_texts(const Communicator& comm, std::string text) {
  std::vector<std::string> all;
  all.push_back(std::move(text));
  if constexpr (!comm::single_rank<Communicator>) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    std::vector<double> sizes(static_cast<std::size_t>(comm.size()));
    sizes[rank] = static_cast<double>(all[0].size());
    allreduce_host(comm, std::span<double>(sizes), reduce_op::sum);
    core::pod_vector<send_op<cpu>> out;
    core::pod_vector<recv_op<cpu>> in;
    const auto span_of = [](std::string& s) { return span_on<char, cpu>{s.data(), s.size()}; };
    if (rank != 0) out.push_back({0, bytes(span_of(all[0]))});
    if (rank == 0) {
      all.resize(sizes.size());
      for (std::size_t k = 1; k < sizes.size(); ++k) {
        all[k].resize(static_cast<std::size_t>(sizes[k]));
        in.push_back({static_cast<int>(k), bytes(span_of(all[k]))});
      }
    }
    comm.duplicate(comm::agreement_context)
        .exchange(std::as_const(out).span(), std::as_const(in).span(), cpu::stream{});
  }
  return all;
}

}  // namespace detail::train

/// Records `steps` updates of a fit on every rank, after the first `skip`; then rank 0 writes
/// `path`. Times count from the moment all ranks have reached the beginning of the fit, virtual
/// ones from the beginning of the run. A resumed run, and a further fit, write separate files:
/// trace.step-1200.json beside trace.json. Use one object per rank in a fit.
///
///   run.fit(feed, 90, validation{held_out}, chrome_trace{"trace.json"});
struct chrome_trace {
  std::string path;          ///< File of the trace; its folder must exist.
  std::int64_t steps = 100;  ///< Updates to record. Range: 1 or more, else usage_error.
  /// Updates of the fit before the first recorded one. Range: 0 or more, else usage_error.
  std::int64_t skip = 0;
  std::optional<detail::train::step_log> log{};  ///< State: the file, on rank 0.
  std::int64_t done = -1;  ///< State: updates of the fit; -1: the file is written.
  /// State: this rank's recorder; null before the first fit.
  detail::train::trace_recorder* recorder = nullptr;

  ~chrome_trace() {
    if (recorder != nullptr) detail::core::remove_trace_sink(*recorder);
  }

  /// Settings that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("chrome_trace, .steps ", steps, ", .skip ", skip);
  }

  /// Checks the options and the file. @throws usage_error for an option out of its range; error if
  /// the file cannot be written.
  template <class Run>
  void check_on_all_ranks(Run& run, double) {
    expects(steps > 0 && skip >= 0, "chrome_trace: .steps is at least 1, .skip at least 0");
    if (run.comm().rank() != 0) return;
    log.emplace("chrome_trace", path_at(run.fit_state().update));
    log->check(false, [](const std::string&) { return false; });
  }
  /// Opens the file and waits for all ranks. Collective.
  template <class Run>
  void begin_on_all_ranks(Run& run, double) {
    if (run.comm().rank() == 0) {
      const auto none = [](const std::string&) { return false; };
      log->open(false, none, none);
      log->put("[\n");  // of a killed run: a list may lack its end
      log->flush();
    }
    std::array<double, 1> barrier{};
    allreduce_host(run.comm(), barrier, reduce_op::sum);
    recorder = &recorder_of(detail::comm::world_rank(run.comm(), run.comm().rank()));
    detail::core::remove_trace_sink(*recorder);  // of a fit that threw
    recorder->start(run.comm());
    done = 0;
    if (skip == 0) detail::core::add_trace_sink(*recorder);
  }
  /// Starts recording, or writes the file, after the chosen updates; never ends the run.
  template <class Run>
  bool step_on_all_ranks(Run& run, double) {
    if (done < 0) return false;
    ++done;
    if (done == skip) detail::core::add_trace_sink(*recorder);
    if (done == skip + steps) write(run);
    return false;
  }
  /// Writes the file if the fit had fewer updates. Collective.
  template <class Run>
  void end_on_all_ranks(Run& run) {
    if (done >= 0) write(run);
  }

 private:
  // It must outlive the exchanges that report to it, and these the fit if that throws.
  static detail::train::trace_recorder& recorder_of(int rank) {
    // Simulated ranks share the thread.
    thread_local std::vector<detail::core::owned_ptr<detail::train::trace_recorder>> all;
    for (const auto& recorder : all)
      if (recorder->rank == rank) return *recorder;
    return *all.emplace_back(detail::core::owned_ptr<detail::train::trace_recorder>::make(rank));
  }
  [[nodiscard]] std::string path_at(std::int64_t step) const {
    if (step == 0) return path;
    const std::size_t dot = path.find('.', path.find_last_of('/') + 1);  // npos + 1 is 0
    const std::size_t end = std::min(dot, path.size());
    return concat(path.substr(0, end), ".step-", step, path.substr(end));
  }
  template <class Run>
  void write(Run& run) {
    detail::core::remove_trace_sink(*recorder);
    done = -1;
    const auto texts = detail::train::gather_texts(
        run.comm(), detail::train::trace_lines(recorder->take(), run.comm().rank()));
    if (run.comm().rank() != 0) return;
    for (std::size_t k = 0; k + 1 < texts.size(); ++k) log->put(texts[k].c_str());
    log->put(texts.back().substr(0, texts.back().size() - 2).c_str());  // without the last comma
    log->put("\n]\n");
    log->flush();
    log.reset();
  }
};

}  // namespace cordee::inline CORDEE_ABI
