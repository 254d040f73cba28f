// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/warp.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/warps.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Bytes from one end of shared memory's two halves to the other, by so many syncs and waits.
template <bool Waits, bool Syncs>
struct swapping {
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
      b.commit();
    }
    b.template wait<Waits ? 1 : 2>();
    if constexpr (Syncs) b.sync();
    std::memcpy(out + t * 16, memory + (threads - 1 - t) * 16, 16);
    b.template wait<0>();
    b.sync();
    std::memcpy(out + (threads + t) * 16, memory + (2 * threads - 1 - t) * 16, 16);
  }
};
template <class Body>
std::vector<std::byte> swapped(std::uint64_t seed) {
  std::vector<std::byte> in(2 * 64 * 16), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i % 251);
  emulated{seed}.open().launch(1, Body{in.data(), out.data()});
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

/// A copy into what others still read.
struct impatient {
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
    b.commit();
    b.template wait<0>();
  }
};
struct odd_copy {
  static constexpr int threads = 32;
  const float* in;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    b.copy_async(b.template shared<float>(4 * threads) + b.thread(), in, true);
  }
};
/// One warp does without a product or a sync.
template <bool Product>
struct incomplete {
  static constexpr int threads = 64;
  template <class Block>
  void operator()(Block& b) const {
    const fragment a[1]{};
    fragment_sums<half_words> c[1][1]{};
    if (b.thread() != 40) {
      b.multiply(a, a, c);
      b.sync();
    } else if constexpr (!Product) {
      b.sync();
    }
  }
};

}  // namespace

TEST_CASE("warp: copies arrive at the wait, for others at the sync, in groups") {
  for (std::uint64_t seed = 1; seed < 4; ++seed)
    CHECK(swapped<swapping<true, true>>(seed) == right());
}

TEST_CASE("warp: a missing wait or sync, and a copy into what is read, show under every order") {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    CHECK(swapped<swapping<false, true>>(seed) != right());
    CHECK(swapped<swapping<true, false>>(seed) != right());
    alignas(16) const float in[4] = {};
    std::vector<float> out(32), wanted(32);
    for (std::size_t t = 0; t < 32; ++t) wanted[t] = static_cast<float>(31 - t);
    emulated{seed}.open().launch(1, impatient{in, out.data()});
    CHECK(out != wanted);
  }
}

TEST_CASE("warp: copies between odd places, and products that lack a lane, are errors") {
  alignas(16) const float in[4] = {};
  const emulated::stream s{};
  CHECK(contains(complaint([&] { s.launch(1, odd_copy{in}); }), "16 bytes at multiples of 16"));
  CHECK(contains(complaint([&] { s.launch(1, incomplete<false>{}); }),
                 "0 of 64 threads of block 0 ended, 31 wait for their warps"));
  CHECK(contains(complaint([&] { s.launch(1, incomplete<true>{}); }), "1 of 64 threads"));
}

TEST_CASE_TEMPLATE("warp: 32 lanes make the product of what lies in shared memory", Words,
                   half_words, bfloat_words, byte_words) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) products_are_right<Words>(bench_on{emulated{seed}});
}
