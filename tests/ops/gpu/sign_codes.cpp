// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Signs and mean magnitudes on an emulated GPU, through gathered: the numbers and residuals of the
// CPU, whatever the order of blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/core/random.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/sign_codes.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Tensors of one number, of parts of bytes, and of several chunks of a kernel.
constexpr std::array<segment, 5> coded_table{
    segment{"a", kind::weight, 0, 1}, segment{"b", kind::bias, 64, 63},
    segment{"c", kind::weight, 128, 10007}, segment{"d", kind::scale, 10176, 64},
    segment{"e", kind::weight, 10240, 9}};
constexpr std::size_t coded_size = 10304;

template <class Real>
struct mixed {
  std::vector<Real> x, e;
};
/// A rank's numbers in tensors, and zero between them.
template <class Real>
std::vector<Real> coded_numbers(std::size_t n, bool whole, int rank, int round) {
  random_sequence random(5, purpose::test, static_cast<std::uint64_t>(rank),
                         static_cast<std::uint64_t>(round));
  std::vector<Real> x(n);
  const auto fill = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) x[i] = static_cast<Real>(random.normal());
  };
  if (whole) fill(0, n);
  if (!whole)
    for (const segment& s : coded_table) fill(s.offset, s.end());
  x[0] = -Real{0};  // a sign, too
  return x;
}

/// What ranks of D hold after some means, of tensors or, with `n`, of so many numbers alone.
template <class Real, class D>
auto means_on(const D& device, int ranks, std::size_t n = 0, double replaced = 0) {
  return on_ranks(ranks, [&](threads comm) {
    const auto s = device.make_stream();
    const gathered reducer{comm, scaled_sign{}};
    const bool whole = n > 0;
    const std::size_t size = whole ? n : coded_size;
    const bucket layout{0, 0, size, coded_table, 0};
    device_vector<Real, D> e(device, s, std::vector<Real>(size));
    device_vector<std::byte, D> scratch(
        device, s, std::vector<std::byte>(reducer.template scratch<Real>(size) + 1));
    mixed<Real> out;
    for (int round = 0; round < 3; ++round) {
      auto numbers = coded_numbers<Real>(size, whole, comm.rank(), round);
      if (replaced != 0 && comm.rank() == ranks - 1)
        numbers[size - 60] = static_cast<Real>(replaced);
      device_vector<Real, D> x(device, s, numbers);
      reducer.mix(bucket_view<Real, D, 1>{whole ? nullptr : &layout,
                                          {x.data(), size},
                                          {span_on<Real, D>{e.data(), size}},
                                          {scratch.data(), reducer.template scratch<Real>(size)}},
                  {}, s);
      out.x = x.read();
    }
    out.e = e.read();
    CHECK(scratch.read().back() == std::byte{});
    return out;
  });
}

/// A mean of n magnitudes, in double, differs by at most n roundings in each order of its sum, and
/// by one to Real; what is kept back by as many as there were means. Means are at most one.
template <class Real>
bool is_close(const std::vector<Real>& a, const std::vector<Real>& b) {
  bool close = a.size() == b.size();
  const double bound = 3 * (8 * static_cast<double>(std::numeric_limits<Real>::epsilon()) +
                            coded_size * std::numeric_limits<double>::epsilon());
  for (std::size_t i = 0; close && i < a.size(); ++i)
    close = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= bound;
  return close;
}

}  // namespace

TEST_CASE_TEMPLATE("sign_codes: means and residuals on a GPU are the CPU's", Real, EMULATED_REALS) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t n : {0u, 1u, 7u, 64u, 129u, 4097u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto host = means_on<Real>(cpu(1), ranks, n),
                 one = means_on<Real>(emulated(1), ranks, n),
                 other = means_on<Real>(emulated(2), ranks, n);
      for (std::size_t r = 0; r < host.size(); ++r) {
        CHECK(same_bits(one[r].x, one[0].x));
        CHECK(same_bits(one[r].e, other[r].e));
        CHECK(is_close(one[r].x, host[r].x));
        CHECK(is_close(one[r].e, host[r].e));
      }
    }
}

TEST_CASE("sign_codes: a number that is not finite makes its whole tensor so, on all ranks") {
  for (const double bad : {std::nan(""), -double{INFINITY}})
    for (const auto& rank : means_on<float>(emulated(1), 3, 0, bad))
      for (const segment& s : coded_table)
        for (std::size_t i = s.offset; i < s.end(); ++i)
          CHECK(std::isfinite(rank.x[i]) == (&s != &coded_table[4]));
}
