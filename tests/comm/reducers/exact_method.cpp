// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A method of two ranks that exchange halves is a reducer on every wire.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

template <class Communicator>
struct halves : exact_method<halves<Communicator>, Communicator> {
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n / 2 + 1) * sizeof(Real);
  }
  [[nodiscard]] int chunks(std::size_t) const { return 2; }
  template <class Wire>
  void run(Wire w) const {
    const int r = this->comm.rank();
    const chunk_range own{r, r + 1}, other{1 - r, 2 - r};
    CHECK(w.count() == 2);
    w.add(1 - r, other, 1 - r, own);
    w.average(own, 2);
    w.pass(1 - r, own, 1 - r, other);
    w.flush();
  }
};
template <class Communicator>
halves(Communicator) -> halves<Communicator>;

// A long message's mean in one round, in several, and by mix().
template <class Method>
void check_pipelining(const Method& method) {
  std::vector<float> given(200'003);
  random_sequence random(1, purpose::test, static_cast<std::uint64_t>(method.comm.rank()), 0);
  for (float& v : given) v = static_cast<float>(random.normal());
  const std::size_t n = given.size();
  const auto mean_in = [&](int rounds) {
    std::vector<float> x = given;
    const int count = rounds * method.chunks(n);
    method.run(
        detail::comm::plain_wire<threads, float, cpu>{method.comm, {x.data(), n}, {}, count, {}});
    return x;
  };
  const std::vector<float> one_round = mean_in(1);
  const std::string name = method.describe();
  CAPTURE(name);
  CHECK(mean_in(2) == one_round);
  CHECK(mean_in(5) == one_round);
  method.mix(bucket_view<float, cpu, 0>{nullptr, {given.data(), n}, {}, {}}, step_info{},
             cpu::stream{});
  CHECK(given == one_round);
}

}  // namespace

TEST_CASE("exact_method: chunks(), scratch() and run() make a reducer, plain and compressed") {
  using plain = halves<threads>;
  static_assert(ReducerOn<plain, float, cpu> && CompressibleOn<plain, bf16, float, cpu>);
  CHECK(reducer_laws([](auto comm) { return halves{comm}; },
                     {.ranks = {1, 2},
                      .messages = [](int, int p) { return p == 1 ? 0u : 2u; },
                      .numbers = [](int p, std::size_t n) { return p == 1 ? 0 : 2 * n; }}) == "");
  CHECK(reducer_laws(
            [](auto comm) {
              return compressed{halves{comm}, bf16{}};
            },
            {.ranks = {1, 2}}) == "");
}

TEST_CASE("exact_method: pipelining changes no bit of a mean") {
  for (const int p : {1, 2, 3, 5, 8})
    support::on_ranks(p, [](threads comm) {
      check_pipelining(ring{comm});
      check_pipelining(tree{comm});
      check_pipelining(halving_doubling{comm});
      return 0;
    });
}
