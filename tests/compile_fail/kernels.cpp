// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A kernel whose parameters are too large with the flag that it is predicated on does not compile.
#include <cordee/device/predicated.hpp>

using namespace cordee;

struct stream_only {
  struct stream {
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel&) const {}
    [[nodiscard]] void* allocate(std::size_t) const { return nullptr; }
    void release(void*) const noexcept {}
    void copy(void*, const void*, std::size_t) const {}
    void finish() const {}
    [[nodiscard]] unsigned* counters(std::size_t) const { return nullptr; }
  };
};

#ifdef PREDICATED_KERNEL_OF_4_KIB
constexpr std::size_t table_bytes = 4096;
#else
constexpr std::size_t table_bytes = 4096 - 8;
#endif
struct large_kernel {
  static constexpr int threads = 32;
  std::byte table[table_bytes];
  template <class Block>
  CORDEE_DEVICE void operator()(Block&) const {}
};
void launch(const detail::device::predicated<stream_only>::stream& s, const large_kernel& kernel) {
  s.launch_kernel(1, kernel);
}
