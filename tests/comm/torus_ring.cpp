// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/torus_ring.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Two rows of three; a message to a rank of the own row does not leave it.
struct rows_apart {
  static constexpr bool blocks_host = true;
  threads link;
  std::size_t* left;
  [[nodiscard]] int rank() const { return link.rank(); }
  [[nodiscard]] int size() const { return link.size(); }
  [[nodiscard]] rows_apart lane(int k) const { return {link.lane(k), left}; }
  void exchange(std::span<const to<cpu>> out, std::span<const from<cpu>> in, cpu::stream s) const {
    for (const auto& m : out) *left += m.peer / 3 == rank() / 3 ? 0 : m.bytes.size;
    link.exchange(out, in, s);
  }
};

}  // namespace

TEST_CASE("torus_ring keeps the laws: 2(X-1) + 2(Y-1) messages, a flat ring's 2n(p-1) numbers") {
  CHECK(reducer_laws([](auto link) { return torus_ring{link}; },
                     {.messages =
                          [](int, int p) {
                            int rows = 1;
                            for (int r = 1; r * r <= p; ++r)
                              if (p % r == 0) rows = r;
                            return whole(2 * (p / rows - 1) + 2 * (rows - 1));
                          },
                      .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE("torus_ring: of the bytes only 2(n/X)(Y-1)/Y a rank leave a row") {
  constexpr std::size_t n = 6 * 20;
  for (const std::size_t left : on_ranks(6, [](threads link) {
         std::size_t bytes = 0;
         const torus_ring all{rows_apart{link, &bytes}, 2};
         std::vector<double> x(n);
         std::vector<std::byte> scratch(all.scratch<double>(n));
         all.mix(
             message<double, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
             moment{}, cpu::stream{});
         return bytes;
       }))
    CHECK(left == 2 * (n / 3) / 2 * sizeof(double));
}

TEST_CASE("torus_ring says what it is, and refuses rows of unequal length") {
  on_ranks(6, [](threads link) {
    CHECK(torus_ring{link}.describe() == "rings over 2 x 3 ranks: exact mean");
    CHECK(torus_ring{link, 6}.describe() == "rings over 6 x 1 ranks: exact mean");
    float x = 1;
    const std::string said = complaint([&] {
      torus_ring{link, 4}.mix(message<float, cpu, 0>{nullptr, {&x, 1}, {}, {}}, moment{},
                              cpu::stream{});
    });
    CHECK(contains(said, "the number of ranks must be a multiple of the number of rows"));
    return 0;
  });
}
