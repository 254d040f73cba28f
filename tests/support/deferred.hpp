// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An emulated GPU with deferred execution: streams are queues whose work runs when the host or an
// event waits for it, or earlier as drawn from a seed. A missing event therefore shows in the
// results: data are read too early or overwritten too early.
//
// Pageable host memory is read, and written, before a copy returns, as with CUDA. At each
// submission a queue and a number of its pieces of work to run are drawn; with seed 0 nothing runs
// before it must.
//
// It captures graphs as CUDA does; what CUDA refuses during a capture is an error. More than 300
// lines: queues, events and captures are one state under one lock.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <cordee/device/graph_capture.hpp>

#include "tests/support/emulated.hpp"

namespace support {

class deferred {
  struct shared_state;
  struct queue;
  /// A captured graph: its work, and the memory that the stream allocated for it.
  struct captured_work {
    std::vector<std::function<void()>> work;
    queue* origin = nullptr;
    std::vector<queue*> branches;  // streams that joined the capture by an event
    std::vector<void*> allocations;
    shared_state* state;

    explicit captured_work(shared_state* s) : state(s) {}
    captured_work(const captured_work&) = delete;
    captured_work& operator=(const captured_work&) = delete;
    ~captured_work() {
      for (void* const memory : allocations) free_memory(*state, memory);
    }
  };
  /// A stream's submitted work, in order.
  struct queue {
    std::deque<std::function<void()>> pending;
    std::size_t completed = 0, submitted = 0;
    captured_work* capture = nullptr;  // the capture in progress
    // What a branch of a capture has submitted: a replay runs it as late as it may, when the origin
    // joins it.
    std::vector<std::function<void()>> branch;
    std::size_t joined = 0;
    std::vector<std::unique_ptr<unsigned[]>> counters;
    std::size_t counters_size = 0;  // of the last ones

    void submit_captured(std::function<void()> f) {
      (capture->origin == this ? capture->work : branch).push_back(std::move(f));
    }
  };
  struct shared_state {
    std::recursive_mutex mutex;
    std::vector<std::unique_ptr<queue>> queues;
    std::mt19937_64 random;
    bool lazy = true;
    std::atomic<std::size_t> launches = 0;  // by the trainer and its courier
    std::size_t replays = 0, waits = 0;
    const queue* polled = nullptr;  // by is_complete, up to this position
    std::size_t polled_position = 0;
    std::map<std::uintptr_t, std::size_t> allocations;  // device and pinned memory

    explicit shared_state(std::uint64_t seed) : random(seed), lazy(seed == 0) {}

    static void run(queue& q, std::size_t until) {
      while (q.completed < until) {
        const auto work = std::move(q.pending.front());
        q.pending.pop_front();
        ++q.completed;
        work();
      }
    }
    void run_some() {
      if (lazy) return;
      queue& q = *queues[random() % queues.size()];
      run(q, std::min(q.submitted, q.completed + random() % 8));
    }
    void run_all() {
      for (const auto& q : queues) run(*q, q->submitted);
    }
    [[nodiscard]] bool pageable(const void* p) const {
      const auto at = reinterpret_cast<std::uintptr_t>(p);
      auto next = allocations.upper_bound(at);
      return next == allocations.begin() || (--next, at >= next->first + next->second);
    }
  };

 public:
  static constexpr std::string_view name = "deferred";
  static constexpr bool host_memory = false;

  struct event {
    queue* of = nullptr;
    std::size_t position = 0;
    captured_work* capture = nullptr;  // whose recording it was
  };
  /// A default-constructed stream runs its work at once.
  struct stream : cordee::detail::device::kernel_adl_base {
    shared_state* state = nullptr;
    queue* work_queue = nullptr;

    template <class Work>
    void submit(const Work& work) const {
      if (work_queue == nullptr) return work();
      const std::scoped_lock lock(state->mutex);
      if (is_capturing()) return work_queue->submit_captured(work);
      work_queue->pending.emplace_back(work);
      ++work_queue->submitted;
      state->run_some();
    }
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      if (state != nullptr && !is_capturing()) ++state->launches;
      submit([blocks, kernel] { emulated::stream(1).launch_kernel(blocks, kernel); });
    }
    [[nodiscard]] void* allocate(std::size_t size) const {
      void* const memory = emulated{}.allocate(size);
      if (state != nullptr) add_allocation(*state, memory, size);
      if (!is_capturing() || size == 0) return memory;
      work_queue->capture->allocations.push_back(memory);
      submit([=] { std::memset(memory, 0xff, size); });  // its content does not outlive a replay
      return memory;
    }
    [[nodiscard]] unsigned* counters(std::size_t n) const {
      if (work_queue == nullptr) return emulated::stream(1).counters(n);
      if (n > work_queue->counters_size) {
        if (is_capturing()) throw cordee::error("counters cannot be made during a capture");
        work_queue->counters.push_back(std::make_unique<unsigned[]>(n));
        work_queue->counters_size = n;
      }
      return n == 0 ? nullptr : work_queue->counters.back().get();
    }
    void release(void* memory) const noexcept {
      if (is_capturing()) return;
      submit([memory, state = state] {
        if (state == nullptr) return emulated{}.release(memory);
        free_memory(*state, memory);
      });
    }
    void copy(void* out, const void* in, std::size_t size) const {
      if (size == 0) return;
      const std::scoped_lock lock(state->mutex);
      if (is_capturing() && (state->pageable(in) || state->pageable(out)))
        throw cordee::error("a copy from or to pageable memory cannot be captured");
      if (state->pageable(in)) {
        const auto* from = static_cast<const std::byte*>(in);
        submit([out, staged = std::vector(from, from + size)] {
          std::memcpy(out, staged.data(), staged.size());
        });
      } else {
        submit([=] { std::memmove(out, in, size); });
      }
      if (state->pageable(out)) finish();
    }
    void finish() const {
      if (work_queue == nullptr) return;
      if (is_capturing()) throw cordee::error("a stream cannot be waited for during its capture");
      const std::scoped_lock lock(state->mutex);
      ++state->waits;
      shared_state::run(*work_queue, work_queue->submitted);
    }
    [[nodiscard]] bool is_capturing() const {
      return work_queue != nullptr && work_queue->capture != nullptr;
    }
  };
  using graph = std::shared_ptr<const captured_work>;

  explicit deferred(std::uint64_t seed = 0) : state_(std::make_shared<shared_state>(seed)) {}

  [[nodiscard]] std::size_t launches() const { return state_->launches; }
  /// How often the host has waited for a stream, or for an event that had not been reached.
  [[nodiscard]] std::size_t waits() const { return state_->waits; }
  /// Pieces of work that have not run.
  [[nodiscard]] std::size_t left() const {
    std::size_t n = 0;
    for (const auto& q : state_->queues) n += q->pending.size();
    return n;
  }

  [[nodiscard]] stream make_stream() const {
    const std::scoped_lock lock(state_->mutex);
    state_->queues.push_back(std::make_unique<queue>());
    stream s;
    s.state = state_.get();
    s.work_queue = state_->queues.back().get();
    return s;
  }
  [[nodiscard]] void* allocate(std::size_t size) const {
    void* const memory = emulated{}.allocate(size);
    add_allocation(*state_, memory, size);
    return memory;
  }
  /// Waits for all work, as cudaFree does.
  void release(void* memory) const noexcept {
    if (memory == nullptr) return;
    const std::scoped_lock lock(state_->mutex);
    state_->run_all();
    state_->allocations.erase(reinterpret_cast<std::uintptr_t>(memory));
    emulated{}.release(memory);
  }
  [[nodiscard]] bool owns(const void* memory) const {
    const std::scoped_lock lock(state_->mutex);
    return !state_->pageable(memory);
  }
  [[nodiscard]] void* pin(std::size_t size) const { return allocate(size); }
  void unpin(void* memory) const noexcept { release(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const {
    s.state = state_.get();
    s.copy(out, in, size);
  }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0) s.submit([=] { std::memset(out, 0, size); });
  }
  [[nodiscard]] event record(stream s) const {
    if (s.work_queue == nullptr) return {};
    const std::scoped_lock lock(state_->mutex);
    queue& q = *s.work_queue;
    if (s.is_capturing()) return {&q, q.joined + q.branch.size(), q.capture};
    return {&q, q.submitted, nullptr};
  }
  /// Each piece of work takes a second of the stream's time.
  [[nodiscard]] event record_time(stream s) const { return record(s); }
  [[nodiscard]] double seconds_between(const event& begin, const event& end) const {
    const std::scoped_lock lock(state_->mutex);
    if (begin.of == nullptr || begin.of != end.of || end.of->completed < end.position)
      throw cordee::error("an event has no time before it is complete");
    return static_cast<double>(end.position) - static_cast<double>(begin.position);
  }
  void await(stream s, const event& e) const {
    if (e.capture != nullptr) return join_capture(*s.work_queue, e);
    if (e.of != nullptr) s.submit([e] { shared_state::run(*e.of, e.position); });
  }
  void finish(stream s) const { s.finish(); }
  /// A poll, between two of which a piece of the work before `e` runs.
  [[nodiscard]] bool is_complete(const event& e) const {
    const std::scoped_lock lock(state_->mutex);
    if (e.of == nullptr || e.of->completed >= e.position) return true;
    if (state_->polled != e.of || state_->polled_position != e.position) ++state_->waits;
    state_->polled = e.of;
    state_->polled_position = e.position;
    shared_state::run(*e.of, e.of->completed + 1);
    return false;
  }
  void wait(const event& e) const {
    const std::scoped_lock lock(state_->mutex);
    if (e.of == nullptr || e.of->completed >= e.position) return;
    ++state_->waits;
    shared_state::run(*e.of, e.position);
  }

  template <class F>
  [[nodiscard]] graph capture(stream s, const F& f) const {
    const auto captured = std::make_shared<captured_work>(state_.get());
    captured->origin = s.work_queue;
    s.work_queue->capture = captured.get();
    try {
      f();
    } catch (...) {
      end_capture(*captured);
      throw;
    }
    if (!end_capture(*captured)) throw cordee::error("a stream has not joined the capture again");
    return captured;
  }
  void replay(const graph& captured, stream s) const {
    ++state_->replays;
    s.submit([captured] {
      for (const auto& work : captured->work) work();
    });
  }
  [[nodiscard]] std::size_t replays() const { return state_->replays; }

 private:
  // `q` becomes a branch of the capture, or as its origin joins one.
  static void join_capture(queue& q, const event& e) {
    if (q.capture == nullptr) {
      q.capture = e.capture;
      e.capture->branches.push_back(&q);
    } else if (e.capture->origin == &q) {
      queue& from = *e.of;
      for (; from.joined < e.position && !from.branch.empty(); ++from.joined) {
        e.capture->work.push_back(std::move(from.branch.front()));
        from.branch.erase(from.branch.begin());
      }
    }
  }
  // Whether every branch has been joined.
  static bool end_capture(captured_work& captured) {
    bool joined = true;
    captured.origin->capture = nullptr;
    for (queue* const q : captured.branches) {
      joined = joined && q->branch.empty();
      q->branch.clear();
      q->joined = 0;
      q->capture = nullptr;
    }
    return joined;
  }
  static void add_allocation(shared_state& state, void* memory, std::size_t size) {
    const std::scoped_lock lock(state.mutex);
    if (size != 0) state.allocations[reinterpret_cast<std::uintptr_t>(memory)] = size;
  }
  static void free_memory(shared_state& state, void* memory) {
    const std::scoped_lock lock(state.mutex);
    state.allocations.erase(reinterpret_cast<std::uintptr_t>(memory));
    emulated{}.release(memory);
  }

  std::shared_ptr<shared_state> state_;
};
static_assert(cordee::detail::device::GraphCapture<deferred> &&
              cordee::GpuStream<deferred::stream>);

}  // namespace support
