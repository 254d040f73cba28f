// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/gpu_kernel.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace support;

namespace {

/// Called once by each thread.
struct single_call_op {
  static constexpr std::size_t numbers_per_thread = 1;
  int* calls;
  CORDEE_DEVICE void operator()(std::size_t i) const { ++calls[i]; }
};

/// out[block] <- the sum over the block's threads of in, through shared memory, by halving.
template <bool MissingBarrier>
struct halving_sum {
  static constexpr int threads = 64;
  const float* in;
  float* out;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    const int t = b.thread();
    part[t] = in[b.index() * threads + static_cast<std::size_t>(t)];
    if constexpr (!MissingBarrier) b.sync();
    for (int half = threads / 2; half > 0; half /= 2) {
      if (t < half) part[t] += part[t + half];
      b.sync();
    }
    if (t == 0) out[b.index()] = part[0];
  }
};

struct divergent_kernel {
  static constexpr int threads = 8;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (b.thread() != 3) b.sync();
  }
};
/// Every block announces itself and, after a barrier, counts the others that have: a race.
struct announcing_kernel {
  static constexpr int threads = 32;
  int *announced, *seen;  // (blocks)
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (b.thread() == 0) announced[b.index()] = 1;
    b.sync();
    if (b.thread() == 0)
      for (std::size_t other = 0; other < b.blocks(); ++other) seen[b.index()] += announced[other];
  }
};
struct oversized_kernel {
  static constexpr int threads = 8;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 64; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    b.template shared<float>(16)[b.thread()] = 0;
    b.template shared<double>(64)[b.thread()] = 0;
  }
};
struct sum_kernel {
  static constexpr int threads = 32;
  double* out;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    out[b.index() * threads + static_cast<std::size_t>(b.thread())] =
        b.sum(1.0 + b.thread()) + static_cast<double>(b.sum(0.5f));
  }
};

/// Every block writes its number, and the last of `of` blocks adds what they wrote.
struct last_block_kernel {
  static constexpr int threads = 64;
  unsigned of;
  unsigned* arrived;
  double *numbers, *sum, *last_blocks;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (b.thread() == 40) numbers[b.index()] = 1 + static_cast<double>(b.index());
    if (!b.is_last(arrived, of)) return;
    if (b.thread() == 3)
      for (std::size_t k = 0; k < b.blocks(); ++k) *sum += numbers[k];
    if (b.thread() == 63) *last_blocks += 1;
  }
};

std::vector<float> block_sums(std::uint64_t seed, auto kernel) {
  std::vector<float> in(64 * 5), out(5);
  std::iota(in.begin(), in.end(), 0.0f);
  kernel.in = in.data();
  kernel.out = out.data();
  emulated{seed}.make_stream().launch_kernel(5, kernel);
  return out;
}
const std::vector<float> sums{2016, 6112, 10208, 14304, 18400};

}  // namespace

TEST_CASE(
    "gpu kernel, emulated: with its barriers, a kernel's result does not depend on the order of "
    "threads") {
  for (std::uint64_t seed = 1; seed < 9; ++seed)
    CHECK(block_sums(seed, halving_sum<false>{}) == sums);
}

TEST_CASE("gpu kernel, emulated: a missing barrier shows under some order of threads") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed < 9; ++seed)
    wrong += block_sums(seed, halving_sum<true>{}) != sums;
  CHECK(wrong > 4);
}

TEST_CASE("gpu kernel, emulated: a divergent barrier and too much shared memory are errors") {
  const emulated::stream s{};
  CHECK(contains(error_message([&] { s.launch_kernel(2, divergent_kernel{}); }),
                 "divergent barrier: 1 of 8 threads"));
  CHECK(contains(error_message([&] { s.launch_kernel(1, oversized_kernel{}); }),
                 "more shared memory than"));
}

TEST_CASE("gpu kernel, emulated: every thread receives the block's sum") {
  std::vector<double> out(3 * 32);
  emulated::stream{}.launch_kernel(3, sum_kernel{out.data()});
  for (const double x : out) CHECK(x == 32 * 33 / 2 + 16);
}

TEST_CASE("gpu kernel, emulated: the last block sees what all have written, and ends with zeros") {
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    const emulated::stream s(seed);
    std::vector<double> numbers(7);
    double sum = 0, last_blocks = 0;
    for (int launch = 1; launch < 3; ++launch) {
      s.launch_kernel(7, last_block_kernel{7, s.counters(1), numbers.data(), &sum, &last_blocks});
      CHECK(sum == launch * 28);
      CHECK(last_blocks == launch);
    }
    CHECK(contains(
        error_message([&] {
          std::vector<unsigned> own(1);
          s.launch_kernel(7, last_block_kernel{5, own.data(), numbers.data(), &sum, &last_blocks});
        }),
        "leaves a counter that is not zero"));
  }
}

TEST_CASE("gpu kernel, emulated: for_each calls f once for every index") {
  for (const std::size_t n : {0u, 1u, 255u, 1024u, 1025u, 5000u}) {
    std::vector<int> calls(n);
    for_each(emulated::stream{}, n, [at = calls.data()](std::size_t i) { ++at[i]; });
    CHECK(calls == std::vector<int>(n, 1));
    for_each(emulated::stream{}, n, single_call_op{calls.data()});
    CHECK(calls == std::vector<int>(n, 2));
  }
}

TEST_CASE("gpu kernel, emulated: a stream_buffer is writable, and released to its stream") {
  const stream_buffer<double, emulated::stream> buffer(emulated::stream{}, 100);
  for (int i = 0; i < 100; ++i) buffer.data()[i] = i;  // AddressSanitizer checks the bounds
  CHECK(buffer.data()[99] == 99);
}

TEST_CASE("gpu kernel, emulated: a race between blocks gives other results under other seeds") {
  constexpr std::size_t blocks = 6;
  std::vector<std::vector<int>> results;
  bool interleaved = false;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    std::vector<int> announced(blocks), seen(blocks);
    emulated{seed}.make_stream().launch_kernel(blocks,
                                               announcing_kernel{announced.data(), seen.data()});
    if (std::find(results.begin(), results.end(), seen) == results.end()) results.push_back(seen);
    // One after another, the blocks would see 1, 2, 3, ... in some order.
    std::sort(seen.begin(), seen.end());
    interleaved = interleaved || std::adjacent_find(seen.begin(), seen.end()) != seen.end();
  }
  CHECK(results.size() > 4);
  CHECK(interleaved);
}
