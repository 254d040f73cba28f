// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The checker finds a planted fault of every kind, and none in the same kernels without it.
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/warp.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace {

enum class fault {
  none,
  missing_barrier,
  late_barrier,
  shared_bounds,
  global_bounds,
  global_underflow,
  another_block,
  uninitialized_shared,
  uninitialized_global,
  misaligned,
  host_variable,
  parameter
};

int host_counter = 0;

/// out <- in, reversed in each block, through shared memory.
template <fault Fault>
struct reverse_kernel {
  static constexpr int threads = 64;
  const float* in;
  float* out;
  mutable int calls = 0;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    const int t = b.thread();
    const std::size_t first = b.index() * threads, last = b.blocks() * threads;
    const std::size_t i = first + static_cast<std::size_t>(t);
    const bool skipped = Fault == fault::uninitialized_shared && t == 7;
    if (!skipped) part[t] = in[i];
    if constexpr (Fault != fault::missing_barrier) b.sync();
    if constexpr (Fault == fault::host_variable) ++host_counter;
    if constexpr (Fault == fault::parameter) ++calls;
    float x = part[threads - 1 - t];
    if constexpr (Fault == fault::late_barrier) part[t] = 0;
    if constexpr (Fault == fault::shared_bounds) x += part[t == 3 ? threads : t];
    if constexpr (Fault == fault::global_bounds) x += in[i + 1 == last ? last : i];
    if constexpr (Fault == fault::global_underflow) x += in[i == 0 ? i - 1 : i];
    if constexpr (Fault == fault::uninitialized_global) x += out[i];
    if constexpr (Fault == fault::misaligned) {
      double two = 0;
      std::memcpy(&two, __builtin_assume_aligned(static_cast<const void*>(in + first + 1), 8), 8);
      x += static_cast<float>(two);
    }
    out[Fault == fault::another_block && b.index() == 1 && t == 0 ? 0 : i] = x;
  }
};

enum class copy_fault {
  none,
  missing_wait,
  missing_barrier,
  early_copy,
  bounds,
  early_ldmatrix,
  host_source,
  global_target,
  misaligned_row,
  global_row
};

const float host_numbers[4] = {1, 2, 3, 4};

/// out <- in, reversed, through asynchronous copies; then an ldmatrix of what was copied.
template <copy_fault Fault>
struct copy_kernel {
  static constexpr int threads = 32;
  const float* in;  // (4 threads)
  float* out;       // (threads)
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 2 * threads * 16; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const copied = b.template shared<float>(4 * threads);
    float* const written = b.template shared<float>(4 * threads);
    const int t = b.thread();
    const int to = Fault == copy_fault::bounds && t == threads - 1 ? threads : t;
    const bool of_host = Fault == copy_fault::host_source && t == 5;
    float* const target = Fault == copy_fault::global_target && t == 5 ? out : copied + 4 * to;
    b.copy_async(target, of_host ? host_numbers : in + 4 * t, true);
    b.commit_group();
    if constexpr (Fault != copy_fault::missing_wait) b.template wait_group<0>();
    if constexpr (Fault != copy_fault::missing_barrier) b.sync();
    out[t] = copied[4 * (threads - 1 - t)];
    if constexpr (Fault == copy_fault::early_copy) b.copy_async(copied + 4 * t, in + 4 * t, true);
    for (int i = 0; i < 4; ++i) written[4 * t + i] = 1;
    if constexpr (Fault != copy_fault::early_ldmatrix) b.sync();
    detail::device::fragment f;
    const float* row = written + t % 16 * 8 + t / 16 * 4;
    if (Fault == copy_fault::misaligned_row && t == 5) row += 2;
    if (Fault == copy_fault::global_row && t == 5) row = in;
    b.ldmatrix(f, row);
    b.template wait_group<0>();
  }
};

/// The message of the launch; empty if it passes.
template <fault Fault>
std::string message(std::uint64_t seed) {
  const device_fixture at{emulated{seed}};
  const auto in = at.put(std::vector<float>(3 * 64, 1));
  const stream_buffer<float, emulated::stream> out(at.s, 3 * 64);
  return error_message([&] {
    at.s.launch_kernel(3, reverse_kernel<Fault>{in.span().data, out.data()});
  });
}
enum class last_fault { none, not_last, written_late, other_counter, another_shared };

/// The last block sums what all blocks wrote.
template <last_fault Fault>
struct last_sum_kernel {
  static constexpr int threads = 64;
  unsigned* arrived;
  float *numbers, *sum;  // (blocks), (1)
  const float** places;  // (blocks), of their shared memory
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const bool late = Fault == last_fault::written_late;
    if (!late && b.thread() == 1) numbers[b.index()] = 1;
    if (b.thread() == 1) places[b.index()] = b.template shared<float>(1);
    unsigned* const counter = arrived + (Fault == last_fault::other_counter ? b.index() % 2 : 0);
    const auto blocks = static_cast<unsigned>(b.blocks());
    const bool is_last =
        b.is_last(counter, Fault == last_fault::other_counter ? blocks / 2 : blocks);
    if (late && b.thread() == 1) numbers[b.index()] = 1;
    if (Fault == last_fault::another_shared && !is_last)
      for (int k = 0; k < 99; ++k) b.sync();  // it is resident when the last block reads
    if (Fault != last_fault::not_last && !is_last) return;
    float total = 0;
    if (b.thread() == 0)
      for (std::size_t k = 0; k < b.blocks(); ++k) total += numbers[k];
    if (Fault == last_fault::another_shared && b.thread() == 0)
      total += *places[(b.index() + 1) % b.blocks()];
    if (is_last && b.thread() == 0) *sum = total;
  }
};
template <last_fault Fault>
std::string last_message(std::uint64_t seed, std::size_t blocks = 6) {
  const device_fixture at{emulated{seed}};
  auto numbers = at.put(std::vector<float>(blocks)), sum = at.put(std::vector<float>(1));
  auto places = at.put(std::vector<const float*>(blocks));
  return error_message([&] {
    at.s.launch_kernel(blocks, last_sum_kernel<Fault>{at.s.counters(2), numbers.span().data,
                                                      sum.span().data, places.span().data});
  });
}

template <fault Fault>
void finds(const char* sentence) {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    const std::string found = message<Fault>(seed);
    INFO(found);
    CHECK(contains(found, "reverse_kernel"));
    CHECK(contains(found, sentence));
  }
}

template <copy_fault Fault>
std::string copy_message() {
  const device_fixture at{emulated{2}};
  const auto in = at.put(std::vector<float>(4 * 32, 1));
  const stream_buffer<float, emulated::stream> out(at.s, 32);
  return error_message([&] {
    at.s.launch_kernel(1, copy_kernel<Fault>{in.span().data, out.data()});
  });
}

}  // namespace

TEST_CASE("checked kernels: a kernel without a fault passes") {
  for (std::uint64_t seed = 1; seed < 9; ++seed) CHECK(message<fault::none>(seed) == "");
}
TEST_CASE("checked kernels: a missing barrier is a race, under every order of threads") {
  finds<fault::missing_barrier>("race: offset ");
  finds<fault::late_barrier>("race: offset ");
}
TEST_CASE("checked kernels: an access outside an array is found") {
  finds<fault::shared_bounds>("out of bounds: offset 256 of shared memory, read; thread 3");
  finds<fault::global_bounds>(
      "out of bounds: 1 bytes from the last byte of the allocation before it, read; thread 63 of "
      "block 2");
  finds<fault::global_underflow>("out of bounds: ");
}
TEST_CASE("checked kernels: two blocks that write one number are a race") {
  finds<fault::another_block>(
      "race: offset 0 of an allocation, written and written by thread 0 of "
      "block ");
}
TEST_CASE("checked kernels: reading memory that was never written is found") {
  finds<fault::uninitialized_shared>("uninitialized: offset 28 of shared memory, read; thread 56");
  finds<fault::uninitialized_global>("uninitialized: offset ");
}
TEST_CASE("checked kernels: a vector access at an odd multiple of half its size is found") {
  finds<fault::misaligned>("misaligned: offset ");
}
TEST_CASE("checked kernels: variables of the host and parameters are not for a kernel to change") {
  finds<fault::host_variable>("host variable: outside the heap, ");
  finds<fault::parameter>("host variable: outside the heap, a parameter of the kernel is written");
}
TEST_CASE("checked kernels: asynchronous copies and fragments need their waits and barriers") {
  CHECK(copy_message<copy_fault::none>() == "");
  CHECK(contains(copy_message<copy_fault::missing_wait>(), "pending copy: offset "));
  CHECK(contains(copy_message<copy_fault::missing_barrier>(), "race: offset "));
  CHECK(contains(copy_message<copy_fault::early_copy>(), "race: offset "));
  CHECK(contains(copy_message<copy_fault::bounds>(), "out of bounds: offset 512 of shared memory"));
  CHECK(contains(copy_message<copy_fault::early_ldmatrix>(), "race: offset 640 of shared memory"));
  CHECK(contains(copy_message<copy_fault::host_source>(),
                 "host variable: outside the heap, copied; thread 5"));
  CHECK(contains(copy_message<copy_fault::global_target>(),
                 "the target of a copy is not in shared memory; thread 5"));
  CHECK(contains(copy_message<copy_fault::misaligned_row>(), "a row of ldmatrix; thread 5"));
  CHECK(contains(copy_message<copy_fault::global_row>(), "ldmatrix reads shared memory; thread 5"));
}
TEST_CASE("checked kernels: only the last block sees what others wrote, and before they arrived") {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    CHECK(last_message<last_fault::none>(seed) == "");
    CHECK(contains(last_message<last_fault::not_last>(seed), "race: offset "));
    CHECK(contains(last_message<last_fault::written_late>(seed), "race: offset "));
    CHECK(contains(last_message<last_fault::other_counter>(seed), "race: offset "));
  }
}
TEST_CASE("checked kernels: shared memory of another block, which is resident, is found") {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const std::string found = last_message<last_fault::another_shared>(seed, 3);
    INFO(found);
    CHECK(contains(found, "out of bounds: "));
    CHECK(contains(found, "shared memory of another block; thread 0"));
  }
}
