// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A method of one's own, in a few lines, is a reducer on every wire: pairs tell each other their
// halves.
#include <doctest/doctest.h>

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

namespace {

template <class Link>
struct halves : exact_method<halves<Link>, linked<Link>> {
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n / 2 + 1) * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return 2; }
  template <class Wire>
  void run(Wire w) const {
    const int r = this->link.rank();
    const blocks mine{r, r + 1}, theirs{1 - r, 2 - r};
    CHECK(w.count() == 2);
    w.add(1 - r, theirs, 1 - r, mine);
    w.finish(mine, 2);
    w.pass(1 - r, mine, 1 - r, theirs);
    w.open();
  }
};
template <class Link>
halves(Link) -> halves<Link>;

// The mean of a long message as one round, as several, and as `mix` does it.
template <class Method>
void check_rounds(const Method& method) {
  std::vector<float> given(200'003);
  random_sequence random(1, purpose::test, static_cast<std::uint64_t>(method.link.rank()), 0);
  for (float& v : given) v = static_cast<float>(random.normal());
  const std::size_t n = given.size();
  const auto in_rounds = [&](int rounds) {
    std::vector<float> x = given;
    const int blocks = rounds * method.parts(n);
    method.run(plain_wire<threads, float, cpu>{method.link, {x.data(), n}, {}, blocks, {}});
    return x;
  };
  const std::vector<float> once = in_rounds(1);
  const std::string who = method.describe();
  CAPTURE(who);
  CHECK(in_rounds(2) == once);
  CHECK(in_rounds(5) == once);
  method.mix(message<float, cpu, 0>{nullptr, {given.data(), n}, {}, {}}, moment{}, cpu::stream{});
  CHECK(given == once);
}

}  // namespace

TEST_CASE("exact_method: who tells whom which blocks is all that a reducer takes, on any wire") {
  using plain = halves<threads>;
  static_assert(ReducerOn<plain, float, cpu> && NarrowsOn<plain, bf16, float, cpu>);
  CHECK(reducer_laws([](auto link) { return halves{link}; },
                     {.ranks = {1, 2},
                      .messages = [](int, int p) { return p == 1 ? 0u : 2u; },
                      .numbers = [](int p, std::size_t n) { return p == 1 ? 0 : 2 * n; }}) == "");
  CHECK(reducer_laws(
            [](auto link) {
              return narrow{halves{link}, bf16{}};
            },
            {.ranks = {1, 2}}) == "");
}

TEST_CASE("exact_method: in how many rounds a message goes changes no bit of its mean") {
  for (const int p : {1, 2, 3, 5, 8})
    support::on_ranks(p, [](threads link) {
      check_rounds(ring{link});
      check_rounds(tree{link});
      check_rounds(halving{link});
      return 0;
    });
}
