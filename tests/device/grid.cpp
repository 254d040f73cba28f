// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/grid.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// out[block] <- the sum over the block's threads of in, through shared memory, by halves.
template <bool Forgets>
struct halves {
  static constexpr int threads = 64;
  const float* in;
  float* out;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    const int t = b.thread();
    part[t] = in[b.index() * threads + static_cast<std::size_t>(t)];
    if constexpr (!Forgets) b.sync();
    for (int half = threads / 2; half > 0; half /= 2) {
      if (t < half) part[t] += part[t + half];
      b.sync();
    }
    if (t == 0) out[b.index()] = part[0];
  }
};

struct diverging {
  static constexpr int threads = 8;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (b.thread() != 3) b.sync();
  }
};
struct greedy {
  static constexpr int threads = 8;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 64; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    b.template shared<float>(16)[b.thread()] = 0;
    b.template shared<double>(64)[b.thread()] = 0;
  }
};
struct summing {
  static constexpr int threads = 32;
  double* out;
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    out[b.index() * threads + static_cast<std::size_t>(b.thread())] =
        b.sum(1.0 + b.thread()) + static_cast<double>(b.sum(0.5f));
  }
};

std::vector<float> halved(std::uint64_t seed, auto body) {
  std::vector<float> in(64 * 5), out(5);
  std::iota(in.begin(), in.end(), 0.0f);
  body.in = in.data();
  body.out = out.data();
  emulated{seed}.open().launch(5, body);
  return out;
}
const std::vector<float> sums{2016, 6112, 10208, 14304, 18400};

}  // namespace

TEST_CASE("grid: a body with barriers gives the same under every order of blocks and threads") {
  for (std::uint64_t seed = 1; seed < 9; ++seed) CHECK(halved(seed, halves<false>{}) == sums);
}

TEST_CASE("grid: a barrier that is missing shows under some order") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed < 9; ++seed) wrong += halved(seed, halves<true>{}) != sums;
  CHECK(wrong > 4);
}

TEST_CASE("grid: a barrier that diverges and shared memory that is not there are errors") {
  const emulated::stream s{};
  CHECK(contains(complaint([&] { s.launch(2, diverging{}); }),
                 "a barrier that diverges: 1 of 8 threads"));
  CHECK(contains(complaint([&] { s.launch(1, greedy{}); }), "more shared memory than"));
}

TEST_CASE("grid: a block's sum is every thread's") {
  std::vector<double> out(3 * 32);
  emulated::stream{}.launch(3, summing{out.data()});
  for (const double x : out) CHECK(x == 32 * 33 / 2 + 16);
}

TEST_CASE("grid: for_each meets every number once") {
  for (const std::size_t n : {0u, 1u, 255u, 1024u, 1025u, 5000u}) {
    std::vector<int> met(n);
    for_each(emulated::stream{}, n, [at = met.data()](std::size_t i) { ++at[i]; });
    CHECK(met == std::vector<int>(n, 1));
  }
}

TEST_CASE("grid: lent memory is the stream's and comes back") {
  const lent<double, emulated::stream> room(emulated::stream{}, 100);
  for (int i = 0; i < 100; ++i) room.data()[i] = i;  // AddressSanitizer looks on
  CHECK(room.data()[99] == 99);
}
