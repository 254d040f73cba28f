// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/account.hpp>

using namespace cordee;

namespace {
void look(const std::vector<double>& squares, bool all_or_nothing, account& to) {
  detail::tallies{squares.data(), squares.size(), all_or_nothing, &to}(0);
}
}  // namespace

TEST_CASE("account: looks add up in order, and one that is not finite is counted and left out") {
  account a;
  look({1, 2}, false, a);
  CHECK((a.grad_square == 3 && a.spoils == 0 && a.spoilt == 0));
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    look({4, bad}, false, a);
    CHECK((a.grad_square == 3 && a.spoilt == 1));
  }
  look({}, false, a);
  look({5}, false, a);
  CHECK((a.grad_square == 8 && a.spoils == 2 && a.spoilt == 0));
}

TEST_CASE("account: where all is lost with one the sum says what it was") {
  account a, b;
  look({1, HUGE_VAL}, true, a);
  CHECK((a.grad_square == HUGE_VAL && a.spoils == 1));
  look({std::nan(""), 1}, true, b);
  CHECK((std::isnan(b.grad_square) && b.spoils == 1));
}

TEST_CASE("account: numbers are replaced where the flag is raised, or cleared, and else kept") {
  const std::vector<float> from{1, 2, 3};
  for (const std::int32_t flag : {0, 1, 7}) {
    std::vector<float> to{4, 5, 6}, zeroed = to;
    for (std::size_t i = 0; i < 3; ++i) {
      detail::replaces<float>{&flag, from.data(), to.data()}(i);
      detail::replaces<float>{&flag, nullptr, zeroed.data()}(i);
    }
    CHECK(to == (flag == 0 ? std::vector<float>{4, 5, 6} : from));
    CHECK(zeroed == (flag == 0 ? std::vector<float>{4, 5, 6} : std::vector<float>(3)));
  }
}

TEST_CASE("account: a step opens with its moment and nothing found; the scale is the last one's") {
  account a{.scale = {8, 3}, .unscale = 0.125f, .grad_square = 2, .spoils = 3, .spoilt = 1};
  detail::opens_account{{.step = 4, .applied = 2, .rate = 0.5, .previous_rate = 0.25}, &a}(0);
  CHECK((a.now.step == 4 && a.now.applied == 2 && a.now.rate == 0.5));
  CHECK(a.now.previous_rate == 0.25);
  CHECK((a.grad_square == 0 && a.spoils == 0 && a.spoilt == 0));
  CHECK((a.scale.value == 8 && a.scale.seen == 3 && a.unscale == 0.125f));
}

TEST_CASE("account: the golden trace of the loss scale, from what looks found") {
  account a{.scale = {65536}};
  const std::vector<double> looks{HUGE_VAL, std::nan(""), 1, 1, 1, 1, HUGE_VAL, 1, 1, 1};
  const std::vector<float> values{32768, 16384, 16384, 16384, 32768,
                                  32768, 16384, 16384, 16384, 32768};
  for (std::size_t k = 0; k < looks.size(); ++k) {
    detail::opens_account{{}, &a}(0);
    look({1, looks[k]}, true, a);
    detail::rescales{{.interval = 3}, &a}(0);
    CHECK(a.scale.value == values[k]);
    CHECK(a.unscale == 1 / values[k]);
  }
}
