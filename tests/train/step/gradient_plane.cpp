// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/step/gradient_plane.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace cordee::detail::train;
using support::t4_table;

namespace {

using plane = gradient_plane<double, cpu>;
const std::span<const segment> table(t4_table);
const auto* const called = frozen_layers("W1").called();

}  // namespace

TEST_CASE("gradient_plane: the arena's where nothing is frozen, else as much as may be written") {
  for (const auto written :
       {frozen_gradients::all, frozen_gradients::from_first_group, frozen_gradients::none}) {
    const plane whole(cpu(1), table, {}, written, nullptr);
    CHECK((whole.is_in_arena() && whole.size() == 320 && whole.first_written() == 0));
    const plane some(cpu(1), table, table.subspan(1, 2), written, nullptr, called);
    REQUIRE_FALSE(some.is_in_arena());
    const bool skips = written == frozen_gradients::none;
    const std::size_t first = table[1].offset, last = table[3].offset;
    CHECK(some.part().offset == (skips ? first : 0));
    CHECK(some.part().numbers.size == (skips ? last - first : 320));
    CHECK(some.size() == some.part().numbers.size);
    CHECK(some.first_written() == (written == frozen_gradients::all ? 0 : first));
    for (const double g : some.part().numbers) CHECK(g == 0);
    CHECK(some.part().has(table[2]));
    CHECK(some.part().has(table[3]) == !skips);
    CHECK(&some.part()[first] == some.part().origin() + first);
  }
}

TEST_CASE("gradient_plane: memory of a transport starts at zero and is as large as asked for") {
  std::vector<double> own(320, 7.0);
  const auto registered = [&] { return std::shared_ptr<void>(own.data(), [](void*) {}); };
  const plane some(cpu(1), table, table.subspan(1, 1), frozen_gradients::none, registered(),
                   called);
  CHECK(some.part().numbers.data == own.data());
  CHECK(some.size() < 320);
  for (std::size_t i = 0; i < own.size(); ++i) CHECK(own[i] == (i < some.size() ? 0 : 7));
}
