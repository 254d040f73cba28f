// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// majority_vote on an emulated GPU has the CPU's bits, in whatever order its blocks run.
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/core/random.hpp>
#include <cordee/ops/gpu/votes.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Tensors of one number, of parts of bytes, and of several chunks of a kernel.
constexpr std::array<segment, 4> voted_table{
    segment{"a", kind::weight, 0, 1}, segment{"b", kind::bias, 64, 63},
    segment{"c", kind::weight, 128, 10007}, segment{"d", kind::scale, 10176, 9}};
constexpr std::size_t voted_size = 10240;

struct voted {
  std::vector<float> x, m;
};
/// What ranks of D hold after four votes on tensors or, with `n`, on so many numbers alone: whose
/// numbers are of a few values, so that zeros and ties are frequent.
template <class D>
auto votes_on(const D& device, int ranks, std::size_t n = 0, float replaced = 0) {
  return on_ranks(ranks, [&](threads comm) {
    const auto s = device.make_stream();
    const majority_vote reducer{comm, {.momentum = 0.5}};
    const std::size_t size = n > 0 ? n : voted_size, bytes = reducer.template scratch<float>(size);
    const bucket layout{0, 0, size, voted_table, 0};
    device_vector<float, D> m(device, s, std::vector<float>(size));
    device_vector<std::byte, D> scratch(device, s, std::vector<std::byte>(bytes + 1));
    voted out;
    for (int round = 0; round < 4; ++round) {
      random_sequence random(5, purpose::synthetic, static_cast<std::uint64_t>(comm.rank()),
                             static_cast<std::uint64_t>(round));
      std::vector<float> numbers(size);
      for (float& one : numbers) one = static_cast<float>(static_cast<int>(random.below(5)) - 2);
      if (replaced != 0 && comm.rank() == ranks - 1) numbers[size - 60] = replaced;
      device_vector<float, D> x(device, s, numbers);
      reducer.mix(bucket_view<float, D, 1>{n > 0 ? nullptr : &layout,
                                           {x.data(), size},
                                           {span_on<float, D>{m.data(), size}},
                                           {scratch.data(), bytes}},
                  {.step = round}, s);
      out.x = x.read();
    }
    out.m = m.read();
    CHECK(scratch.read().back() == std::byte{});
    return out;
  });
}

}  // namespace

TEST_CASE("votes: signs and momenta on a GPU have the CPU's bits") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t n : {0u, 1u, 7u, 64u, 129u, 4097u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto host = votes_on(cpu(1), ranks, n), one = votes_on(emulated(1), ranks, n),
                 other = votes_on(emulated(2), ranks, n);
      for (std::size_t r = 0; r < host.size(); ++r) {
        CHECK(same_bits(one[r].x, host[r].x));
        CHECK(same_bits(other[r].x, host[r].x));
        CHECK(same_bits(one[r].m, host[r].m));
      }
    }
}

TEST_CASE("votes: a number that is not finite makes its chunk NaN on all ranks, as on the CPU") {
  for (const float bad : {std::nanf(""), -INFINITY}) {
    const auto host = votes_on(cpu(1), 3, 0, bad), device = votes_on(emulated(1), 3, 0, bad);
    std::size_t nans = 0;
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t i = 0; i < voted_size; ++i) {
        CHECK(std::isnan(device[r].x[i]) == std::isnan(host[r].x[i]));
        nans += std::isnan(device[r].x[i]) ? 1 : 0;
      }
    CHECK(nans > 0);
    CHECK(nans < 3 * voted_size);
  }
}
