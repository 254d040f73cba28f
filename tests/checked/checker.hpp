// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Checks every memory access of the emulated kernels of a program. An error names the kernel, the
// kind of fault, the place in memory, the threads and the instruction.
//
//   out of bounds    outside every allocation, or in another block's shared memory
//   host variable    neither in device memory nor a local variable nor a parameter of the kernel
//   uninitialized    read, and never written since it was allocated
//   misaligned       an access of 2, 4, 8 or 16 bytes that is not at a multiple of its size
//   race             between two barriers, of two threads of a block; or of two blocks of a launch,
//                    unless both arrived at one counter and the later one is its last; one of them
//                    a write.
//   pending copy     of the target of an asynchronous copy that has not been waited for
//
// How it works: the tests of this program are compiled with -fsanitize=thread, which calls a
// function before every access, and linked to functions of that name in hooks.cpp instead of the
// sanitizer's library. Kernels need no change. The program has all that it allocates in the heap
// of memory.hpp. Kernels that run on the main thread are checked.
//
// To check other tests of emulated kernels: add their sources to this program
// (tests/checked/CMakeLists.txt), or
//   g++ -std=c++20 -march=native -O1 -g1 -fsanitize=thread -fsanitize-coverage=trace-pc
//     -fno-reorder-blocks -DCORDEE_CHECKED_KERNELS -I. -Iinclude -c TEST.cpp
//   g++ TEST.o main.o checker.o hooks.o memory.o report.o traffic.o
//     -Wl,--wrap=memcpy,--wrap=memset,--wrap=memmove      (and no -fsanitize=thread)
// `addr2line -Cife PROGRAM ADDRESS` names the source line of an error's instruction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/checked/memory.hpp"
#include "tests/checked/traffic.hpp"
#include "tests/support/kernel_observer.hpp"

namespace checked {

/// Whose code this thread runs.
enum class code { host, emulator, kernel };
extern constinit thread_local code running;

class checker final : public support::kernel_observer {
 public:
  checker();

  // The instrumentation's calls; pc is the address of the instruction.
  void access(const void* p, std::size_t bytes, bool is_write, bool is_vector, const void* pc);
  void basic_block(const void* pc);

  /// Starts to record the traffic of kernels, and returns that of each launch since.
  void start_recording();
  [[nodiscard]] std::vector<launch_traffic> stop_recording();

  void add_memory(const void* memory, std::size_t size) override;
  void define_memory(const void* memory, std::size_t size) override;
  void begin_launch(const std::type_info& kernel, std::size_t blocks, int threads,
                    const void* parameters, std::size_t parameter_bytes) override;
  void end_launch() override;
  void leave_launch() noexcept override;
  void begin_block(std::size_t slot, std::size_t block, const void* shared,
                   std::size_t bytes) override;
  void add_shared(const void* array, std::size_t bytes) override;
  void barrier(std::size_t slot) override;
  void arrive(std::size_t slot, const void* counter, bool is_last) override;
  void enter_thread(std::size_t slot, int thread, const void* stack, std::size_t size) override;
  bool set_kernel_code(bool of_kernel) override;
  void copy_async(const void* to, const void* from) override;
  void complete_copy(const void* to) override;
  void ldmatrix(int first_thread, const std::byte* const (&rows)[32]) override;

 private:
  /// A range of addresses.
  struct range {
    std::uintptr_t first = 0, last = 0;
    [[nodiscard]] bool contains(const void* p) const {
      const auto at = reinterpret_cast<std::uintptr_t>(p);
      return at >= first && at < last;
    }
  };
  static range range_of(const void* p, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return {at, at + bytes};
  }
  /// A resident block.
  struct resident_block {
    std::size_t index = 0;
    std::uint32_t interval = 0;
    range shared;
    std::vector<thread_trace> traces;
    std::map<std::size_t, std::uint32_t> seen;  // of other blocks: intervals before this one
  };

  /// One access of device memory by `thread`, or by several lanes of a warp.
  void check(const void* p, std::size_t bytes, bool is_write, std::uint16_t thread, const void* pc);
  void check_byte(const void* p, bool is_write, std::uint16_t thread, const void* pc,
                  std::uint8_t state);
  void record(const void* p, std::size_t bytes, bool is_write, int thread, const void* pc);
  void count_byte(const void* p, bool is_write, const access_history& history);
  void begin_interval(resident_block& block);
  void report(const char* kind, const void* p, const std::string& what, const void* pc);
  [[nodiscard]] std::string describe_place(const void* p) const;
  [[nodiscard]] std::string describe_thread(std::uint32_t interval, std::uint16_t thread) const;

  const std::type_info* kernel_ = nullptr;
  range parameters_, stack_, host_stack_;
  int threads_ = 0;
  std::vector<resident_block> slots_;
  std::size_t slot_ = 0;
  std::uint16_t thread_ = 0;
  std::uint32_t last_interval_ = 0, first_interval_ = 1;                 // of all; of this launch
  std::vector<std::uint32_t> block_of_interval_;                         // of this launch
  std::map<const void*, std::map<std::size_t, std::uint32_t>> arrived_;  // `seen` by counter
  struct fault {
    const char* kind;
    const void* pc;
    std::string text;
  };
  std::vector<fault> faults_;

  allocation_map arrays_;  // also those that were released, until their memory is used again
  bool recording_ = false;
  std::vector<launch_traffic> launches_;
  launch_traffic* launch_traffic_ = nullptr;
};

checker& the_checker();

}  // namespace checked
