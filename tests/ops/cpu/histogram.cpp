// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/cpu/histogram.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

std::vector<float> normals(std::size_t n) {
  random_sequence draw(5, purpose::test, 0, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(draw.normal());
  return x;
}

}  // namespace

TEST_CASE("add_to_histogram: counts add over parts, and do not depend on the workers") {
  const auto x = normals(20011);
  std::vector<double> whole(histogram_bins::count);
  add_to_histogram(x.size(), x.data(), whole, {});
  CHECK(std::accumulate(whole.begin(), whole.end(), 0.0) == 20011);
  for (const int workers : {1, 3}) {
    const cpu device(workers);
    std::vector<double> counts(histogram_bins::count);
    add_to_histogram(x.size(), x.data(), counts, device.make_stream());
    CHECK(counts == whole);
  }
  std::vector<double> parts(histogram_bins::count);
  add_to_histogram(777, x.data(), parts, {});
  add_to_histogram(x.size() - 777, x.data() + 777, parts, {});
  CHECK(parts == whole);
}

TEST_CASE("add_to_histogram: zeros that pad blocks of channels are not counted") {
  const std::vector<float> x{0, 1, 0, 0, 2, 0};  // two of the zeros are padding
  std::vector<double> counts(histogram_bins::count);
  add_to_histogram(x.size(), x.data(), counts, {}, 2);
  CHECK(counts[histogram_bins::zero] == 2);
  CHECK(std::accumulate(counts.begin(), counts.end(), 0.0) == 4);
}
