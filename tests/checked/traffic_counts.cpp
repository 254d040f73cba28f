// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sectors and wavefronts of accesses whose numbers are known.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/gpu_kernel.hpp>

#include "tests/checked/checker.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Transactions of a warp whose lanes access `bytes` bytes `stride` bytes apart.
checked::transactions strided(std::size_t bytes, std::size_t stride, bool is_shared) {
  std::vector<checked::trace_entry> lanes;
  for (std::size_t lane = 0; lane < 32; ++lane)
    lanes.push_back({nullptr, lane * stride, static_cast<std::uint8_t>(bytes),
                     static_cast<std::uint8_t>(lane), false, is_shared});
  return checked::count_transactions(lanes);
}
void check_counts(const checked::transactions& t, std::size_t made, std::size_t ideal) {
  CHECK(t.made == made);
  CHECK(t.ideal == ideal);
}
checked::transactions ldmatrix_of_pitch(std::size_t pitch) {
  std::vector<std::uintptr_t> rows;
  for (std::size_t lane = 0; lane < 32; ++lane) rows.push_back(lane % 16 * pitch + lane / 16 * 16);
  return checked::count_ldmatrix(rows);
}

/// Lane t sums rows t % 4 + 1 times, of t % 3 + 1 numbers each, by nested loops; lanes of one row
/// and column read adjacent numbers.
struct nested_loops_kernel {
  static constexpr int threads = 32;
  const float* x;  // (rows, columns, threads)
  float* out;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const int t = b.thread();
    float sum = 0;
    for (int row = 0; row <= t % 4; ++row)
      for (int column = 0; column <= t % 3; ++column) sum += x[(row * 3 + column) * threads + t];
    out[t] = sum;
  }
};
/// Reads numbers `Stride` apart and writes them so to shared memory.
template <int Stride>
struct strided_kernel {
  static constexpr int threads = 32;
  const float* x;
  float* out;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return Stride * threads * 4; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(Stride * threads);
    const int t = b.thread();
    part[Stride * t] = x[Stride * t];
    b.sync();
    out[t] = part[Stride * (threads - 1 - t)];
  }
};
/// Reads each number twice, and writes it twice.
struct repeating_kernel {
  static constexpr int threads = 32;
  const float* x;
  float* out;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    for (int times = 0; times < 2; ++times) {
      out[b.thread()] = x[b.thread()];
      b.sync();
    }
  }
};
template <class Kernel>
checked::launch_traffic traffic_of() {
  const device_fixture at{emulated{1}};
  const auto x = at.put(std::vector<float>(12 * 32));
  auto out = at.put(std::vector<float>(32));
  checked::the_checker().start_recording();
  at.s.launch_kernel(1, Kernel{x.span().data, out.span().data});
  return checked::the_checker().stop_recording().front();
}

}  // namespace

TEST_CASE("traffic: sectors of 32 bytes") {
  check_counts(strided(4, 4, false), 4, 4);
  check_counts(strided(4, 8, false), 8, 4);
  check_counts(strided(4, 32, false), 32, 4);
  check_counts(strided(4, 0, false), 1, 1);
  check_counts(strided(2, 2, false), 2, 2);
  check_counts(strided(16, 16, false), 16, 16);
  check_counts(strided(8, 64, false), 32, 8);
}
TEST_CASE("traffic: wavefronts of 32 banks; wide accesses take parts of a warp") {
  check_counts(strided(4, 4, true), 1, 1);
  check_counts(strided(4, 8, true), 2, 1);
  check_counts(strided(4, 128, true), 32, 1);
  check_counts(strided(4, 132, true), 1, 1);
  check_counts(strided(4, 0, true), 1, 1);
  check_counts(strided(8, 8, true), 2, 2);
  check_counts(strided(16, 16, true), 4, 4);
  check_counts(strided(16, 32, true), 8, 4);
}
TEST_CASE("traffic: ldmatrix is free of conflicts where eight rows lie in different banks") {
  check_counts(ldmatrix_of_pitch(16), 4, 4);
  check_counts(ldmatrix_of_pitch(80), 4, 4);
  check_counts(ldmatrix_of_pitch(64), 16, 4);
  check_counts(ldmatrix_of_pitch(128), 32, 4);
}
TEST_CASE("traffic: the accesses of a kernel are seen, with what they miss of ideal") {
  const checked::launch_traffic one = traffic_of<strided_kernel<1>>(),
                                eight = traffic_of<strided_kernel<8>>();
  check_counts(one.total.global_load, 4, 4);
  check_counts(one.total.shared_load, 1, 1);
  check_counts(one.total.shared_store, 1, 1);
  CHECK(one.bytes.read == 128);
  CHECK(one.bytes.written == 128);
  check_counts(eight.total.global_load, 32, 4);
  check_counts(eight.total.shared_load, 8, 1);
  check_counts(eight.total.shared_store, 8, 1);
  CHECK(eight.bytes.read == 128);
}
TEST_CASE("traffic: bytes count once in a launch, but once for each request where these count") {
  const checked::launch_traffic once = traffic_of<strided_kernel<1>>(),
                                twice = traffic_of<repeating_kernel>();
  CHECK(once.total.global_load.bytes == 128);
  CHECK(once.total.global_store.bytes == 128);
  CHECK(twice.bytes.read == 128);
  CHECK(twice.bytes.written == 128);
  CHECK(twice.total.global_load.bytes == 256);
  CHECK(twice.total.global_store.bytes == 256);
}
TEST_CASE("traffic: each array of global memory has its own counts") {
  const checked::launch_traffic eight = traffic_of<strided_kernel<8>>();
  CHECK(eight.by_array.size() == 2);
  std::size_t loaded = 0, stored = 0;
  for (const auto& [address, array] : eight.by_array) {
    CHECK(address != 0);
    if (array.bytes.read > 0) {
      ++loaded;
      check_counts(array.load, 32, 4);
      check_counts(array.store, 0, 0);
      CHECK(array.bytes.sum() == 128);
    } else {
      ++stored;
      check_counts(array.load, 0, 0);
      check_counts(array.store, 4, 4);
      CHECK(array.bytes.written == 128);
    }
  }
  CHECK(loaded == 1);
  CHECK(stored == 1);
}
TEST_CASE("traffic: lanes with loops of different lengths meet behind each loop") {
  const checked::transactions loads = traffic_of<nested_loops_kernel>().total.global_load;
  CHECK(loads.requests == 4 * 3);
  std::size_t sectors = 0;  // of eight lanes, at least one of which is in the loop
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 3; ++column)
      for (int first = 0; first < 32; first += 8) {
        bool any = false;
        for (int t = first; t < first + 8; ++t) any = any || (t % 4 >= row && t % 3 >= column);
        sectors += any ? 1 : 0;
      }
  CHECK(loads.made == sectors);
}
