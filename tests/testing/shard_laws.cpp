// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/testing/shard_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

double even(int ranks) { return 1.0 / ranks; }

enum class fault { none, range_of_rank_0, odd_range, sum, stale, writes_behind, reads_others };

/// two_shot with one fault.
template <class Communicator, fault Fault>
struct faulty : two_shot<Communicator> {
  using base = two_shot<Communicator>;

  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const {
    if (Fault == fault::range_of_rank_0) return {0, base::own_range(n).size()};
    return base::own_range(n, Fault == fault::odd_range ? 1 : detail::comm::shard_unit);
  }
  template <class Real, Device D>
  void reduce_scatter(bucket_view<Real, D, 0> m, typename D::stream s) const {
    base::reduce_scatter(m, s, Fault == fault::odd_range ? 1 : detail::comm::shard_unit);
    if (Fault == fault::sum)
      for (std::size_t i = own_range(m.values.size).begin; i < own_range(m.values.size).end; ++i)
        m.values[i] *= static_cast<Real>(this->comm.size());
  }
  template <class Real, Device D>
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    if (Fault == fault::stale) return;
    if (Fault == fault::reads_others && x.size > 0)
      x[own_range(x.size).begin] += 0 * x[x.size - 1 - own_range(x.size).begin];
    base::all_gather(x, s, Fault == fault::odd_range ? 1 : detail::comm::shard_unit);
    if (Fault == fault::writes_behind) x.data[x.size] = 0;
  }
};
template <fault Fault>
std::string law_of() {
  return shard_laws([](auto comm) { return faulty<decltype(comm), Fault>{comm}; },
                    {.ranks = {2}, .same_bits = true, .largest_share = even});
}

}  // namespace

TEST_CASE("shard_laws: reducers whose sums do not depend on the cut have their bits") {
  CHECK(shard_laws([](auto comm) { return two_shot{comm}; },
                   {.same_bits = true, .largest_share = even}) == "");
  CHECK(shard_laws([](auto comm) { return halving_doubling{comm}; }, {.same_bits = true}) == "");
  CHECK(law_of<fault::none>() == "");
}

TEST_CASE("shard_laws: a ring's sums depend on the cut") {
  CHECK(shard_laws([](auto comm) { return ring{comm}; }, {.largest_share = even}) == "");
  CHECK(shard_laws([](auto comm) { return torus_ring{comm}; }) == "");
  CHECK(contains(shard_laws([](auto comm) { return ring{comm}; }, {.same_bits = true}),
                 "the mean has other bits than the reducer's own"));
}

TEST_CASE("shard_laws: each planted fault is found") {
  CHECK(contains(law_of<fault::range_of_rank_0>(), "2 ranks own number 0"));
  CHECK(contains(law_of<fault::odd_range>(), "its range is not of whole units of 64 numbers"));
  CHECK(contains(law_of<fault::sum>(), "it has not the reducer's mean, within rounding"));
  CHECK(contains(law_of<fault::stale>(), "the second half left other bits than on rank 0"));
  CHECK(contains(law_of<fault::writes_behind>(), "the second half wrote behind a message of 0"));
  CHECK(contains(law_of<fault::reads_others>(), "the second half changed its own range"));
  CHECK(contains(shard_laws([](auto comm) { return halving_doubling{comm}; },
                            {.ranks = {3}, .largest_share = even}),
                 ": it owns "));
}
