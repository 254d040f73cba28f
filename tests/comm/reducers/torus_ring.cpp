// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Counts the bytes that leave a row, of two rows of three ranks.
struct row_counter {
  static constexpr bool blocks_host = true;
  threads comm;
  std::size_t* bytes;
  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] row_counter duplicate(int k) const { return {comm.duplicate(k), bytes}; }
  void exchange(std::span<const send_op<cpu>> out, std::span<const recv_op<cpu>> in,
                cpu::stream s) const {
    for (const auto& m : out) *bytes += m.peer / 3 == rank() / 3 ? 0 : m.bytes.size;
    comm.exchange(out, in, s);
  }
};

}  // namespace

TEST_CASE(
    "torus_ring keeps the laws of an exact reducer: 2(X-1) + 2(Y-1) messages, a flat ring's "
    "2n(p-1) numbers") {
  CHECK(reducer_laws([](auto comm) { return torus_ring{comm}; },
                     {.messages =
                          [](int, int p) {
                            int rows = 1;
                            for (int r = 1; r * r <= p; ++r)
                              if (p % r == 0) rows = r;
                            return to_size(2 * (p / rows - 1) + 2 * (rows - 1));
                          },
                      .numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); }}) ==
        "");
}

TEST_CASE("torus_ring: of the bytes only 2(n/X)(Y-1)/Y a rank leave a row") {
  constexpr std::size_t n = 6 * 20;
  for (const std::size_t sent : on_ranks(6, [](threads comm) {
         std::size_t bytes = 0;
         const torus_ring reducer{row_counter{comm, &bytes}, 2};
         std::vector<double> x(n);
         std::vector<std::byte> scratch(reducer.scratch<double>(n));
         reducer.mix(
             bucket_view<double, cpu, 0>{
                 nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
             step_info{}, cpu::stream{});
         return bytes;
       }))
    CHECK(sent == 2 * (n / 3) / 2 * sizeof(double));
}

TEST_CASE("torus_ring describes itself, and refuses rows of unequal length") {
  on_ranks(6, [](threads comm) {
    CHECK(torus_ring{comm}.describe() == "rings over 2 x 3 ranks: exact mean");
    CHECK(torus_ring{comm, 6}.describe() == "rings over 6 x 1 ranks: exact mean");
    float x = 1;
    const std::string thrown = error_message([&] {
      torus_ring{comm, 4}.mix(bucket_view<float, cpu, 0>{nullptr, {&x, 1}, {}, {}}, step_info{},
                              cpu::stream{});
    });
    CHECK(contains(thrown, "the number of ranks must be a multiple of the number of rows"));
    return 0;
  });
}
