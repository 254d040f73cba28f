// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/checked/checker.hpp"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/type_name.hpp"

namespace checked {

constinit thread_local code running = code::host;

namespace {

constinit thread_local bool on_checked_thread = false;

/// While it lives, what the checker itself does is not checked.
class pause {
 public:
  pause() : was_(std::exchange(running, code::emulator)) {}
  pause(const pause&) = delete;
  pause& operator=(const pause&) = delete;
  ~pause() { running = was_; }

 private:
  code was_;
};

}  // namespace

checker& the_checker() {
  static checker c;
  return c;
}

checker::checker() {
  on_checked_thread = true;
  pthread_attr_t attributes;
  void* stack = nullptr;
  std::size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  host_stack_ = range_of(stack, bytes);
}

void checker::start_recording() {
  launches_.clear();
  recording_ = true;
}
std::vector<launch_traffic> checker::stop_recording() {
  recording_ = false;
  return std::move(launches_);
}

void checker::add_memory(const void* memory, std::size_t size) {
  heap::set_state(memory, size, allocated);
  const range added = range_of(memory, size);
  std::erase_if(arrays_, [&](const auto& array) {
    return array.first < added.last && added.first < array.second;
  });
  arrays_[added.first] = added.last;
}
void checker::define_memory(const void* memory, std::size_t size) { heap::define(memory, size); }

void checker::begin_launch(const std::type_info& kernel, std::size_t blocks, int threads,
                           const void* parameters, std::size_t parameter_bytes) {
  if (!on_checked_thread) return;
  running = code::emulator;
  kernel_ = &kernel;
  threads_ = threads;
  parameters_ = range_of(parameters, parameter_bytes);
  slots_.clear();
  faults_.clear();
  block_of_interval_.clear();
  arrived_.clear();
  first_interval_ = last_interval_ + 1;
  launch_traffic_ = nullptr;
  if (!recording_ || blocks == 0) return;
  launch_traffic_ = &launches_.emplace_back();
  launch_traffic_->kernel = support::type_name(kernel);
}
void checker::end_launch() {
  if (!on_checked_thread || faults_.empty()) return;
  std::string text = "kernel " + support::type_name(*kernel_) + ":";
  for (const fault& f : std::exchange(faults_, {})) text += "\n  " + f.text;
  throw cordee::error(text);
}
void checker::leave_launch() noexcept {
  if (!on_checked_thread) return;
  running = code::host;
  for (const resident_block& block : slots_)  // freed, as ordinary memory, after this
    heap::set_state(reinterpret_cast<const void*>(block.shared.first),
                    block.shared.last - block.shared.first, allocated | defined);
}

void checker::begin_block(std::size_t slot, std::size_t block, const void* shared_memory,
                          std::size_t bytes) {
  if (!on_checked_thread) return;
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  resident_block& resident = slots_[slot];
  resident.index = block;
  resident.seen.clear();
  resident.shared = range_of(shared_memory, bytes);
  resident.traces.resize(static_cast<std::size_t>(threads_));
  heap::set_state(shared_memory, bytes, 0);
  begin_interval(resident);
}
void checker::begin_interval(resident_block& block) {
  block.interval = ++last_interval_;
  block_of_interval_.push_back(static_cast<std::uint32_t>(block.index));
}
void checker::add_shared(const void* array, std::size_t bytes) {
  if (!on_checked_thread) return;
  if ((*heap::state_of(array) & allocated) == 0)  // each thread of the block calls
    heap::set_state(array, bytes, allocated | shared);
}
void checker::barrier(std::size_t slot) {
  if (!on_checked_thread) return;
  resident_block& block = slots_[slot];
  begin_interval(block);
  if (launch_traffic_ == nullptr) return;
  const std::span<thread_trace> traces(block.traces);
  for (std::size_t first = 0; first < traces.size(); first += 32)
    add_requests(traces.subspan(first, std::min<std::size_t>(32, traces.size() - first)), arrays_,
                 *launch_traffic_);
  for (thread_trace& trace : block.traces) trace.clear();
}
void checker::arrive(std::size_t slot, const void* counter, bool is_last) {
  if (!on_checked_thread) return;
  resident_block& block = slots_[slot];
  const auto add = [](auto& to, const auto& from) {
    for (const auto& [index, interval] : from) to[index] = std::max(to[index], interval);
  };
  add(arrived_[counter], block.seen);
  arrived_[counter][block.index] = block.interval;
  if (!is_last) return;
  add(block.seen, arrived_[counter]);
  arrived_.erase(counter);
}
void checker::enter_thread(std::size_t slot, int thread, const void* stack, std::size_t size) {
  if (!on_checked_thread) return;
  slot_ = slot;
  thread_ = static_cast<std::uint16_t>(thread);
  stack_ = stack == nullptr ? range{} : range_of(stack, size);
}
bool checker::set_kernel_code(bool of_kernel) {
  if (!on_checked_thread) return false;
  return std::exchange(running, of_kernel ? code::kernel : code::emulator) == code::kernel;
}

void checker::copy_async(const void* to, const void* from) {
  if (!on_checked_thread) return;
  const void* const pc = __builtin_return_address(0);
  if (from != nullptr && heap::contains(from)) {
    check(from, 16, false, thread_, pc);
    record(from, 16, false, thread_, pc);
  } else if (from != nullptr && !host_stack_.contains(from)) {
    report("host variable", from, "copied", pc);
  }
  if (!slots_[slot_].shared.contains(to))
    return report("out of bounds", to, "the target of a copy is not in shared memory", pc);
  check(to, 16, true, thread_, pc);
  record(to, 16, true, thread_, static_cast<const char*>(pc) + 1);
  heap::add_state(to, 16, pending);
}
void checker::complete_copy(const void* to) {
  if (!on_checked_thread || !slots_[slot_].shared.contains(to)) return;
  const std::uint8_t state = *heap::state_of(to);
  heap::set_state(to, 16, state & ~unsigned{pending});
  check(to, 16, true, thread_, __builtin_return_address(0));
}
void checker::ldmatrix(int first_thread, const std::byte* const (&rows)[32]) {
  if (!on_checked_thread) return;
  const void* const pc = __builtin_return_address(0);
  std::array<std::uintptr_t, 32> offsets{};
  for (std::size_t lane = 0; lane < 32; ++lane) {
    offsets[lane] = reinterpret_cast<std::uintptr_t>(rows[lane]) - slots_[slot_].shared.first;
    thread_ = static_cast<std::uint16_t>(first_thread + static_cast<int>(lane));
    if (offsets[lane] % 16 != 0) report("misaligned", rows[lane], "a row of ldmatrix", pc);
    if (!slots_[slot_].shared.contains(rows[lane]))
      report("out of bounds", rows[lane], "ldmatrix reads shared memory", pc);
    else
      check(rows[lane], 16, false, access_history::many_threads, pc);
  }
  if (launch_traffic_ == nullptr) return;
  const transactions made = count_ldmatrix(offsets);
  launch_traffic_->total.shared_load += made;
  launch_traffic_->by_instruction[pc].shared_load += made;
}

void checker::access(const void* p, std::size_t bytes, bool is_write, bool is_vector,
                     const void* pc) {
  const pause paused;
  if (parameters_.contains(p)) {
    if (is_write) report("host variable", p, "a parameter of the kernel is written", pc);
    return;
  }
  if (stack_.contains(p) || host_stack_.contains(p)) return;
  if (!heap::contains(p)) return report("host variable", p, is_write ? "written" : "read", pc);
  if (is_vector && reinterpret_cast<std::uintptr_t>(p) % bytes != 0)
    report("misaligned", p, cordee::concat("access of ", bytes, " bytes"), pc);
  check(p, bytes, is_write, thread_, pc);
  record(p, bytes, is_write, thread_, pc);
}
void checker::basic_block(const void* pc) {
  if (launch_traffic_ == nullptr) return;
  const pause paused;
  record(nullptr, 0, false, thread_, pc);
}

void checker::record(const void* p, std::size_t bytes, bool is_write, int thread, const void* pc) {
  if (launch_traffic_ == nullptr) return;
  resident_block& block = slots_[slot_];
  const bool is_shared = block.shared.contains(p);
  auto address = reinterpret_cast<std::uintptr_t>(p);
  if (is_shared) address -= block.shared.first;
  block.traces[static_cast<std::size_t>(thread)].push_back(
      {pc, address, static_cast<std::uint8_t>(bytes), static_cast<std::uint8_t>(thread % 32),
       is_write, is_shared});
}

void checker::check(const void* p, std::size_t bytes, bool is_write, std::uint16_t thread,
                    const void* pc) {
  std::uint8_t* const state = heap::state_of(p);
  for (std::size_t i = 0; i < bytes; ++i) {
    const void* const at = static_cast<const std::byte*>(p) + i;
    check_byte(at, is_write, thread, pc, state[i]);
    if (is_write) state[i] = static_cast<std::uint8_t>(state[i] | defined);
  }
}
void checker::check_byte(const void* p, bool is_write, std::uint16_t thread, const void* pc,
                         std::uint8_t state) {
  const resident_block& block = slots_[slot_];
  const bool is_shared = (state & shared) != 0;
  const char* const what = is_write ? "written" : "read";
  if ((state & allocated) == 0) return report("out of bounds", p, what, pc);
  if (is_shared && !block.shared.contains(p))
    return report("out of bounds", p, "shared memory of another block", pc);
  if ((state & pending) != 0) return report("pending copy", p, what, pc);
  if (!is_write && (state & defined) == 0) report("uninitialized", p, what, pc);

  access_history& h = *heap::history_of(p);
  const auto is_other_block = [&](std::uint32_t interval) {
    const std::size_t other = block_of_interval_[interval - first_interval_];
    if (is_shared || other == block.index) return false;
    const auto seen = block.seen.find(other);
    return seen == block.seen.end() || interval >= seen->second;
  };
  const auto conflicts = [&](std::uint32_t interval, std::uint16_t with) {
    return interval >= first_interval_ &&
           (interval == block.interval ? with != thread || thread == access_history::many_threads
                                       : is_other_block(interval));
  };
  if (conflicts(h.writer_interval, h.writer))
    report("race", p,
           cordee::concat(what, " and written by ", describe_thread(h.writer_interval, h.writer)),
           pc);
  const bool is_read = h.reader_interval >= first_interval_;
  if (is_write && is_read && (h.many_blocks || conflicts(h.reader_interval, h.reader)))
    report("race", p,
           cordee::concat(
               "written and read by ",
               h.many_blocks ? "several blocks" : describe_thread(h.reader_interval, h.reader)),
           pc);
  if (launch_traffic_ != nullptr && !is_shared) count_byte(p, is_write, h);
  if (is_write) {
    h.writer_interval = block.interval;
    h.writer = thread;
    return;
  }
  if (is_read && h.reader_interval == block.interval) {
    if (h.reader != thread) h.reader = access_history::many_threads;
    return;
  }
  h.many_blocks = is_read && (h.many_blocks || is_other_block(h.reader_interval));
  h.reader_interval = block.interval;
  h.reader = thread;
}

void checker::count_byte(const void* p, bool is_write, const access_history& h) {
  if ((is_write ? h.writer_interval : h.reader_interval) >= first_interval_) return;
  const std::uintptr_t array = allocation_at(arrays_, reinterpret_cast<std::uintptr_t>(p));
  for (byte_count* bytes : {&launch_traffic_->bytes, &launch_traffic_->by_array[array].bytes})
    ++(is_write ? bytes->written : bytes->read);
}

}  // namespace checked
