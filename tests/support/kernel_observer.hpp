// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the emulated GPU reports about the kernels that it runs, for a checker of their memory
// accesses (tests/checked/). Without an observer nothing is reported.
#pragma once

#include <cstddef>
#include <typeinfo>

// A checker finds the instructions of a kernel by their addresses: it is one function.
#if defined(CORDEE_CHECKED_KERNELS)
#define SUPPORT_FLATTEN [[gnu::flatten]]
#else
#define SUPPORT_FLATTEN
#endif

namespace support {

class kernel_observer {
 public:
  virtual ~kernel_observer() = default;

  /// Device memory was allocated, or its content set by the host or by a copy.
  virtual void add_memory(const void* memory, std::size_t size) = 0;
  virtual void define_memory(const void* memory, std::size_t size) = 0;

  virtual void begin_launch(const std::type_info& kernel, std::size_t blocks, int threads,
                            const void* parameters, std::size_t parameter_bytes) = 0;
  /// Throws a cordee::error that lists the kernel's faults.
  virtual void end_launch() = 0;
  /// The last call of a launch, also when an exception leaves it.
  virtual void leave_launch() noexcept = 0;

  /// Several blocks are resident, each in its slot. `shared` is all the shared memory of the block;
  /// add_shared adds an array that the kernel was given of it.
  virtual void begin_block(std::size_t slot, std::size_t block, const void* shared,
                           std::size_t bytes) = 0;
  virtual void add_shared(const void* array, std::size_t bytes) = 0;
  /// All threads of the block have arrived at a barrier, or have finished.
  virtual void barrier(std::size_t slot) = 0;
  /// The block has arrived at the counter, with all that it wrote before its last barrier; the last
  /// one reads what all that arrived wrote.
  virtual void arrive(std::size_t slot, const void* counter, bool is_last) = 0;

  /// The accesses that follow are of this thread, whose stack this is.
  virtual void enter_thread(std::size_t slot, int thread, const void* stack, std::size_t size) = 0;
  /// The accesses that follow are the kernel's, or else the emulator's. Returns what they were.
  virtual bool set_kernel_code(bool of_kernel) = 0;

  /// Of the current thread: 16 bytes, from == nullptr for zeros;
  /// and that its wait has completed it.
  virtual void copy_async(const void* to, const void* from) = 0;
  virtual void complete_copy(const void* to) = 0;
  /// Of lanes `first_thread` to first_thread + 31: the rows of 16 bytes whose addresses they pass.
  virtual void ldmatrix(int first_thread, const std::byte* const (&rows)[32]) = 0;
};

inline kernel_observer* observer = nullptr;

/// While it lives, accesses are the kernel's, or the emulator's. Not instrumented, as it runs
/// inside kernels.
template <bool OfKernel>
class code_section {
 public:
  __attribute__((no_sanitize("thread"))) code_section()
      : was_of_kernel_(observer != nullptr && observer->set_kernel_code(OfKernel)) {}
  code_section(const code_section&) = delete;
  code_section& operator=(const code_section&) = delete;
  __attribute__((no_sanitize("thread"))) ~code_section() {
    if (observer != nullptr) observer->set_kernel_code(was_of_kernel_);
  }

 private:
  bool was_of_kernel_;
};
using kernel_section = code_section<true>;
using emulator_section = code_section<false>;

/// A launch, reported to the observer.
class observed_launch {
 public:
  template <class Kernel>
  observed_launch(const Kernel& kernel, std::size_t blocks) {
    if (observer != nullptr)
      observer->begin_launch(typeid(Kernel), blocks, Kernel::threads, &kernel, sizeof(kernel));
  }
  observed_launch(const observed_launch&) = delete;
  observed_launch& operator=(const observed_launch&) = delete;
  ~observed_launch() {
    if (observer != nullptr) observer->leave_launch();
  }
  void finish() const {
    if (observer != nullptr) observer->end_launch();
  }
};

}  // namespace support
