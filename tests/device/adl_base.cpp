// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Calls without qualification find the passes, from a namespace of its own and with a stream of
// one: for the CPU, and for a GPU's kernels.
#include <cstddef>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/adl_base.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/gpu/elementwise.hpp>

namespace elsewhere {

template <class Stream>
std::vector<float> rectified(std::vector<float> x, Stream s) {
  relu_forward(x.size(), x.data(), x.data(), s);
  return x;
}

struct stream : cordee::detail::device::kernel_adl_base {
  template <class Kernel>
  void launch_kernel(std::size_t, const Kernel&) const {
    ++*launches;
  }
  [[nodiscard]] void* allocate(std::size_t) const { return nullptr; }
  void release(void*) const noexcept {}
  void copy(void*, const void*, std::size_t) const {}
  void finish() const {}
  [[nodiscard]] unsigned* counters(std::size_t) const { return nullptr; }

  int* launches;
};

}  // namespace elsewhere

static_assert(std::is_trivially_copyable_v<cordee::cpu::stream> &&
              sizeof(cordee::cpu::stream) == sizeof(void*));

TEST_CASE("adl_base: a pass is found by the stream's base class, from any namespace") {
  CHECK(elsewhere::rectified({-1, 2}, cordee::cpu::stream{}) == std::vector<float>{0, 2});
  int launches = 0;
  elsewhere::stream s;
  s.launches = &launches;
  elsewhere::rectified({-1, 2}, s);
  CHECK(launches == 1);
}
