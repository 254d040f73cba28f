// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/native_mean.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using detail::comm::number_range;

namespace {

enum class mean_fault {
  none,
  mean,
  overlap,
  gap,
  cut_units,
  sum,
  stale,
  other_bits,
  reads_others,
  behind
};

/// Threads whose own mean, or a half of it, has one fault.
template <mean_fault Fault>
struct faulty_mean {
  threads comm;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    comm.exchange(out, in, s);
  }
  template <class Real, Device D>
  void mean(span_on<Real, D> x, typename D::stream s) const {
    comm.mean(x, s);
    if (Fault == mean_fault::mean && x.size > 0 && rank() == size() - 1) x[0] *= 2;
  }
  number_range own_range(std::size_t n) const {
    number_range own = comm.own_range(n);
    if (Fault == mean_fault::overlap && rank() > 0 && own.begin > 0) own.begin -= 64;
    if (Fault == mean_fault::gap && rank() == size() - 1 && n % 64 != 0) own.end -= 1;
    if (Fault == mean_fault::cut_units && rank() > 0 && own.begin > 0) own.begin += 1;
    return own;
  }
  template <class Real, Device D>
  void reduce_scatter_mean(span_on<Real, D> x, typename D::stream s) const {
    comm.reduce_scatter_mean(x, s);
    const number_range own = own_range(x.size);
    if (Fault == mean_fault::sum)
      for (std::size_t i = own.begin; i < own.end; ++i) x[i] *= static_cast<Real>(size());
  }
  template <class Real, Device D>
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    if (Fault == mean_fault::stale) return;
    if (Fault == mean_fault::reads_others && x.size > 0 && own_range(x.size).size() > 0)
      x[own_range(x.size).begin] += 0 * x[x.size - 1 - own_range(x.size).begin];
    comm.all_gather(x, s);
    if (Fault == mean_fault::other_bits && x.size > 0 && rank() == 1) x[0] *= 1 + 2e-7f;
    if (Fault == mean_fault::behind) x.data[x.size] = 0;
  }
};

template <mean_fault Fault>
std::string mean_violations(int ranks = 3) {
  detail::testing::report r;
  threads::launch(ranks, [&](threads comm) {
    const faulty_mean<Fault> faulty{comm};
    detail::testing::check_native_mean(faulty, r);
    detail::testing::check_native_halves(faulty, r);
  });
  return r.violations();
}

}  // namespace

TEST_CASE("native_mean: threads and one rank keep the laws") {
  for (const int ranks : {1, 2, 3, 5, 8}) CHECK(mean_violations<mean_fault::none>(ranks) == "");
  detail::testing::report r;
  detail::testing::check_native_mean(self_comm{}, r);
  detail::testing::check_native_halves(self_comm{}, r);
  CHECK(r.violations() == "");
}

TEST_CASE("native_mean: each violation is reported") {
  CHECK(contains(mean_violations<mean_fault::mean>(), "the native mean is"));
  CHECK(contains(mean_violations<mean_fault::overlap>(), "behind a rank whose range ends at"));
  CHECK(contains(mean_violations<mean_fault::gap>(), "rank 2 of 3 owns "));
  CHECK(contains(mean_violations<mean_fault::cut_units>(), "behind a rank whose range ends at"));
  CHECK(contains(mean_violations<mean_fault::sum>(), "the native mean is"));
  CHECK(contains(mean_violations<mean_fault::stale>(), "the native mean is"));
  CHECK(contains(mean_violations<mean_fault::other_bits>(), "has other bits than rank 0's"));
  CHECK(contains(mean_violations<mean_fault::reads_others>(), "the native mean is"));
  CHECK(contains(mean_violations<mean_fault::behind>(),
                 "a half wrote behind a message of 0 numbers"));
}
