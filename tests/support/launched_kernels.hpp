// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that the emulated GPU launches.
#pragma once

#include <cstddef>
#include <set>
#include <typeindex>
#include <typeinfo>

#include "tests/support/kernel_observer.hpp"

namespace support {

/// While it lives, collects the types of the kernels.
class launched_kernels final : public kernel_observer {
 public:
  launched_kernels() { observer = this; }
  ~launched_kernels() override { observer = nullptr; }

  [[nodiscard]] const std::set<std::type_index>& all() const { return all_; }

  void begin_launch(const std::type_info& kernel, std::size_t, int, const void*,
                    std::size_t) override {
    all_.insert(kernel);
  }
  void add_memory(const void*, std::size_t) override {}
  void define_memory(const void*, std::size_t) override {}
  void end_launch() override {}
  void leave_launch() noexcept override {}
  void begin_block(std::size_t, std::size_t, const void*, std::size_t) override {}
  void add_shared(const void*, std::size_t) override {}
  void barrier(std::size_t) override {}
  void arrive(std::size_t, const void*, bool) override {}
  void enter_thread(std::size_t, int, const void*, std::size_t) override {}
  bool set_kernel_code(bool) override { return false; }
  void copy_async(const void*, const void*) override {}
  void complete_copy(const void*) override {}
  void ldmatrix(int, const std::byte* const (&)[32]) override {}

 private:
  std::set<std::type_index> all_;
};

}  // namespace support
