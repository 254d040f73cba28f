// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class Real>
struct mixed_vector {
  std::vector<Real> mean, residual;
  traffic sent;
};

// `steps` means of x(rank, step), one after another with their residuals, of two tensors.
template <class Real, class Code, class X>
auto mix(int ranks, std::size_t n, const Code& code, int steps, const X& x) {
  return on_ranks(ranks, [&](threads comm) {
    std::vector<mixed_vector<Real>> out;
    std::vector<Real> residual(n);
    const std::size_t first = n < 70 ? n : 64;  // numbers of the first tensor, padding included
    const std::vector<segment> table =
        n < 70
            ? std::vector<segment>{{"a", kind::weight, 0, n}}
            : std::vector<segment>{{"a", kind::weight, 0, 50}, {"b", kind::weight, first, n - 64}};
    const bucket layout{.offset = 0, .size = n, .segments = table};
    for (int k = 0; k < steps; ++k) {
      mixed_vector<Real> m{x(comm.rank(), k), {}, {}};
      for (std::size_t i = 50; n >= 70 && i < 64; ++i) m.mean[i] = 0;
      const gathered reducer{counting_communicator{comm, &m.sent}, code};
      std::vector<std::byte> scratch(reducer.template scratch<Real>(n) + 8, std::byte{0xa5});
      reducer.mix(bucket_view<Real, cpu, 1>{&layout,
                                            {m.mean.data(), n},
                                            {span_on<Real, cpu>{residual.data(), n}},
                                            {scratch.data(), scratch.size() - 8}},
                  step_info{}, cpu::stream{});
      for (std::size_t i = 0; i < 8; ++i) CHECK(scratch[scratch.size() - 1 - i] == std::byte{0xa5});
      m.residual = residual;
      out.push_back(m);
    }
    return out;
  });
}

template <class Real>
std::vector<Real> noise(int rank, int step, std::size_t n) {
  random_sequence random(9, purpose::test, static_cast<std::uint64_t>(rank),
                         static_cast<std::uint64_t>(step));
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

/// All that was sent and is still owed is all that was given, and all ranks hold the same bits.
template <class Real, class Code>
void check_code(const Code& code) {
  constexpr int steps = 20;
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const std::size_t n : {1u, 2u, 7u, 8u, 9u, 64u, 200u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto by_rank = mix<Real>(
          ranks, n, code, steps, [n](int rank, int step) { return noise<Real>(rank, step, n); });
      std::vector<double> given(n);
      for (int k = 0; k < steps; ++k) {
        const auto mean = mean_over(ranks, [&](int r) { return noise<Real>(r, k, n); });
        for (std::size_t i = 0; i < n; ++i) given[i] += mean[i];
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (n >= 70 && i >= 50 && i < 64) continue;  // padding
        double sent = 0, owed = 0, largest = 0;
        for (int k = 0; k < steps; ++k) {
          const auto at = static_cast<std::size_t>(k);
          sent += static_cast<double>(by_rank[0][at].mean[i]);
          largest = std::max(largest, std::abs(static_cast<double>(by_rank[0][at].residual[i])));
          for (const auto& rank : by_rank)
            CHECK(same_bits(rank[at].mean[i], by_rank[0][at].mean[i]));
        }
        for (const auto& rank : by_rank)
          owed += static_cast<double>(rank.back().residual[i]) / ranks;
        // Each step rounds a sum of residual and gradient, and a mean of `ranks` codes.
        const double bound = 2 * steps * (ranks + 2) * (largest + 5) *
                             static_cast<double>(std::numeric_limits<Real>::epsilon());
        CHECK(std::abs(sent + owed - given[i]) < bound);
      }
    }
}

}  // namespace

TEST_CASE_TEMPLATE(
    "gathered: error feedback loses nothing over steps, with the same bits everywhere", Real, float,
    double) {
  check_code<Real>(top_k{.fraction = 0.05});
  check_code<Real>(top_k{.fraction = 0.5});
  check_code<Real>(scaled_sign{});
}

TEST_CASE("gathered: with all numbers in the code it keeps the laws of an exact mean") {
  CHECK(reducer_laws(
            [](auto comm) {
              return gathered{comm, top_k{.fraction = 1}};
            },
            {.messages = [](int, int p) { return to_size(p - 1); }, .rounding = 1e-6}) == "");
}

TEST_CASE("top_k: golden, the largest of each tensor, the first of equal ones") {
  const auto by_rank = mix<double>(2, 4, top_k{.fraction = 0.5}, 2, [](int rank, int step) {
    return step > 0    ? std::vector<double>(4)
           : rank == 0 ? std::vector<double>{1, -4, 2, 0.5}
                       : std::vector<double>{3, 3, 3, -3};
  });
  CHECK(by_rank[0][0].mean == std::vector<double>{1.5, -0.5, 1, 0});
  CHECK(by_rank[0][0].residual == std::vector<double>{1, 0, 0, 0.5});
  CHECK(by_rank[1][0].residual == std::vector<double>{0, 0, 3, -3});
  CHECK(by_rank[0][1].mean == std::vector<double>{0.5, 0, 1.5, -1.25});
  CHECK(by_rank[0][1].residual == std::vector<double>(4));
}

TEST_CASE("top_k: the places that it sorts are in the memory that it is given") {
  const float x[] = {1, -4, 2, 3};
  std::byte code[2 * 8];
  alignas(4) std::byte workspace[top_k::workspace(4)] = {};
  top_k{.fraction = 0.5}.encode(4, x, code, workspace);
  std::array<std::uint32_t, 4> places;
  std::memcpy(places.data(), workspace, sizeof places);
  CHECK(std::is_permutation(places.begin(), places.end(), std::array{0U, 1U, 2U, 3U}.begin()));
  CHECK(std::min(places[0], places[1]) == 1);
  CHECK(std::max(places[0], places[1]) == 3);
}

TEST_CASE("scaled_sign: golden") {
  const auto by_rank = mix<double>(2, 4, scaled_sign{}, 1, [](int rank, int) {
    return rank == 0 ? std::vector<double>{1, -4, 2, 1} : std::vector<double>{3, 1, -3, 1};
  });
  CHECK(by_rank[0][0].mean == std::vector<double>{2, 0, 0, 2});
  CHECK(by_rank[0][0].residual == std::vector<double>{-1, -2, 0, -1});
  CHECK(by_rank[1][0].residual == std::vector<double>{1, -1, -1, -1});
}

TEST_CASE("gathered: bytes are those of the codes, to each other rank") {
  const auto sent = [](const auto& code) {
    const auto by_rank = mix<float>(
        4, 200, code, 1, [](int rank, int step) { return noise<float>(rank, step, 200); });
    CHECK(by_rank[0][0].sent.messages == 3);
    return by_rank[0][0].sent.bytes;
  };
  CHECK(sent(top_k{.fraction = 0.01}) == 3 * (1 + 2) * 8);  // of 50 and 136 numbers
  CHECK(sent(scaled_sign{}) == 3 * (4 + 7 + 4 + 17));
}

TEST_CASE("gathered: a NaN or an infinity of one rank reaches every rank, in its tensor alone") {
  const auto check = [](const auto& code, double wrong) {
    for (const auto& rank : mix<double>(3, 200, code, 1, [&](int r, int step) {
           auto x = noise<double>(r, step, 200);
           if (r == 1) x[70] = wrong;
           return x;
         })) {
      CHECK(!std::isfinite(rank[0].mean[70]));
      for (std::size_t i = 0; i < 50; ++i) CHECK(std::isfinite(rank[0].mean[i]));
    }
  };
  for (const double wrong : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    check(top_k{.fraction = 0.01}, wrong);
    check(scaled_sign{}, wrong);
  }
}

TEST_CASE("gathered: describes itself and refuses a fraction that is none") {
  on_ranks(2, [](threads comm) {
    CHECK(gathered{comm, top_k{}}.describe() ==
          "mean over 2 ranks of the largest 1 % of each tensor, gathered, with error feedback");
    CHECK(gathered{comm, scaled_sign{}}.describe() ==
          "mean over 2 ranks of signs times the mean magnitude of a tensor, gathered, with error "
          "feedback");
    return 0;
  });
  for (const double fraction : {0.0, -1.0, 1.5, std::nan("")})
    CHECK_THROWS_AS((void)top_k{fraction}.count(7), usage_error);
}

TEST_CASE("top_k: a received place outside of the tensor is an error, 2^32 numbers are the most") {
  const std::uint32_t place = 5;
  std::array<std::byte, sizeof place + sizeof(float)> code{};
  std::memcpy(code.data(), &place, sizeof place);
  std::array<float, 6> x{};
  const top_k one{.fraction = 0.1};
  one.add(6, code.data(), x.data());
  CHECK_THROWS_WITH_AS(one.add(5, code.data(), x.data()), doctest::Contains("place 5 of a tensor"),
                       error);
  constexpr std::size_t most = std::size_t{1} << 32;
  CHECK(top_k::workspace(most) == 4 * most);
  CHECK_THROWS_WITH_AS((void)top_k::workspace(most + 1), doctest::Contains("at most 2^32 numbers"),
                       usage_error);
  threads::launch(1, [](threads comm) {
    const gathered sparse{comm, top_k{}};
    const gathered signs{comm, scaled_sign{}};
    CHECK_THROWS_AS((void)sparse.scratch<float>(most + 1), usage_error);
    CHECK(signs.scratch<float>(most + 1) > most / 8);
  });
}
