// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/warp.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/mma_laws.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace support;

namespace {

/// Reverses the two halves of shared memory, with or without the waits and barriers that this
/// needs.
template <bool HasWait, bool HasSync>
struct reverse_kernel {
  static constexpr int threads = 64;
  const std::byte* in;
  std::byte* out;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 2 * threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int t = b.thread();
    for (int group = 0; group < 2; ++group) {
      const int at = (group * threads + t) * 16;
      b.copy_async(memory + at, in + at, t != 5);
      b.commit_group();
    }
    b.template wait_group<HasWait ? 1 : 2>();
    if constexpr (HasSync) b.sync();
    std::memcpy(out + t * 16, memory + (threads - 1 - t) * 16, 16);
    b.template wait_group<0>();
    b.sync();
    std::memcpy(out + (threads + t) * 16, memory + (2 * threads - 1 - t) * 16, 16);
  }
};
template <class Body>
std::vector<std::byte> reversed(std::uint64_t seed) {
  std::vector<std::byte> in(2 * 64 * 16), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i % 251);
  emulated{seed}.make_stream().launch_kernel(1, Body{in.data(), out.data()});
  return out;
}
std::vector<std::byte> right() {
  std::vector<std::byte> out;
  for (std::size_t group = 0; group < 2; ++group)
    for (std::size_t t = 64; t-- > 0;)
      for (std::size_t i = 0; i < 16; ++i)
        out.push_back(static_cast<std::byte>(t == 5 ? 0 : ((group * 64 + t) * 16 + i) % 251));
  return out;
}

/// Copies to shared memory that other threads may not have read yet.
struct early_copy_kernel {
  static constexpr int threads = 32;
  const float* in;
  float* out;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    float* const memory = b.template shared<float>(4 * threads);
    const int t = b.thread();
    memory[4 * t] = static_cast<float>(t);
    b.sync();
    out[t] = memory[4 * (threads - 1 - t)];
    b.copy_async(memory + 4 * t, in, true);
    b.commit_group();
    b.template wait_group<0>();
  }
};
struct unaligned_copy_kernel {
  static constexpr int threads = 32;
  const float* in;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    b.copy_async(b.template shared<float>(4 * threads) + b.thread(), in, true);
  }
};
/// One lane skips a product (and not the barrier), or one thread both.
template <bool Product>
struct divergent_mma_kernel {
  static constexpr int threads = 64;
  template <class Block>
  void operator()(Block& b) const {
    const detail::device::fragment a[1]{};
    detail::device::accumulator_fragment<detail::device::mma_f16> c[1][1]{};
    if (b.thread() != 40) {
      b.mma(a, a, c);
      b.sync();
    } else if constexpr (!Product) {
      b.sync();
    }
  }
};

}  // namespace

TEST_CASE(
    "warp, emulated: a copy is complete for its thread after wait_group, for others after the "
    "barrier") {
  for (std::uint64_t seed = 1; seed < 4; ++seed)
    CHECK(reversed<reverse_kernel<true, true>>(seed) == right());
}

TEST_CASE(
    "warp, emulated: a missing wait, a missing barrier and an early copy show under every order") {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    CHECK(reversed<reverse_kernel<false, true>>(seed) != right());
    CHECK(reversed<reverse_kernel<true, false>>(seed) != right());
    alignas(16) const float in[4] = {};
    std::vector<float> out(32), wanted(32);
    for (std::size_t t = 0; t < 32; ++t) wanted[t] = static_cast<float>(31 - t);
    emulated{seed}.make_stream().launch_kernel(1, early_copy_kernel{in, out.data()});
    CHECK(out != wanted);
  }
}

TEST_CASE("warp, emulated: unaligned copies, and products that a lane skips, are errors") {
  alignas(16) const float in[4] = {};
  const emulated::stream s{};
  CHECK(contains(error_message([&] { s.launch_kernel(1, unaligned_copy_kernel{in}); }),
                 "16 bytes at multiples of 16"));
  CHECK(contains(error_message([&] { s.launch_kernel(1, divergent_mma_kernel<false>{}); }),
                 "0 of 64 threads of block 0 have finished, 31 wait for their warps"));
  CHECK(contains(error_message([&] { s.launch_kernel(1, divergent_mma_kernel<true>{}); }),
                 "1 of 64 threads"));
}

TEST_CASE_TEMPLATE(
    "warp, emulated: ldmatrix and mma compute the product of matrices in shared memory", Mma,
    detail::device::mma_f16, detail::device::mma_bf16, detail::device::mma_u8s8) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) check_products<Mma>(device_fixture{emulated{seed}});
}
