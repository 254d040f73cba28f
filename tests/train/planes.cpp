// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/planes.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using support::t4_table;

namespace {

template <int Slots>
struct wanting {
  static constexpr int slots = Slots;
};

template <int Rule, int Reducer>
using memory = planes<double, cpu, wanting<Rule>, wanting<Reducer>>;

/// Number i of plane k is 1000 k + i.
template <class P>
void number(P& p, int planes) {
  double* const all = p.weights().data;
  for (std::size_t i = 0; i < 320 * static_cast<std::size_t>(planes); ++i)
    all[i] = static_cast<double>(i / 320 * 1000 + i % 320);
}

/// A look at a gradient that is not finite.
template <class P>
void spoil(P& p) {
  double& g = p.grads()[p.trainables().back().offset];
  const double before = std::exchange(g, std::nan(""));
  p.measure(p.trainables(), 0, false, {});
  p.tally(p.trainables(), 0, false, {});
  g = before;
}

}  // namespace

TEST_CASE(
    "planes: masters, gradients, the rule's slots, the reducer's: side by side in one piece") {
  memory<2, 1> p(cpu(1), t4_table);
  CHECK(p.bytes() == 5 * 320 * sizeof(double));
  const double* const start = p.weights().data;
  CHECK(p.grads().data == start + 320);
  CHECK(p.slot(0).data == start + 640);
  CHECK(p.slot(1).data == start + 960);
  CHECK(p.reducer_slot(0).data == start + 1280);
  CHECK(memory<0, 0>(cpu(1), t4_table).bytes() == 2 * 320 * sizeof(double));
}

TEST_CASE(
    "planes: everything begins at zero, and a plane is as long as the table with its padding") {
  memory<1, 1> p(cpu(1), t4_table);
  for (const auto plane : {p.weights(), p.grads(), p.slot(0), p.reducer_slot(0)}) {
    CHECK(plane.size == 320);
    CHECK(std::vector<double>(plane.begin(), plane.end()) == std::vector<double>(320));
  }
}

TEST_CASE(
    "planes: trainables are the table without its statistics, which are the tail of a plane") {
  memory<0, 0> p(cpu(1), t4_table);
  CHECK(p.table().size() == 5);
  CHECK(p.trainables().size() == 4);
  CHECK(p.trainables().back().name == "b2");
  CHECK(p.statistics().data == p.weights().data + 256);
  CHECK(p.statistics().size == 64);
}

TEST_CASE("planes: a table of statistics alone, or without any, is a table") {
  memory<0, 0> none(cpu(1), std::span(t4_table).first(4));
  CHECK(none.statistics().size == 0);
  none.begin({}, {});
  spoil(none);
  none.undo_if_spoilt(true, {});
  constexpr segment seen[] = {{"seen", kind::statistic, 0, 1}};
  memory<0, 0> only(cpu(1), seen);
  CHECK(only.trainables().empty());
  CHECK(only.statistics().data == only.weights().data);
  CHECK(only.statistics().size == 64);
}

TEST_CASE("planes: after a spoilt look statistics come back as they were, and nothing else does") {
  for (const bool spoilt : {true, false}) {
    memory<1, 0> p(cpu(1), t4_table);
    number(p, 3);
    p.begin({}, {});
    for (const auto plane : {p.weights(), p.grads(), p.slot(0)})
      for (double& x : plane) x = -1;
    if (spoilt) spoil(p);
    const double grad = p.grads()[300];
    p.undo_if_spoilt(true, {});
    for (std::size_t i = 0; i < 320; ++i)
      CHECK(p.weights()[i] == (spoilt && i >= 256 ? static_cast<double>(i) : -1));
    CHECK(p.grads()[300] == grad);
    CHECK(p.slot(0)[300] == -1);
  }
}

TEST_CASE(
    "planes: a bucket is cleared by its own look, what is remembered by any look of the step") {
  memory<0, 1> p(cpu(1), t4_table);
  number(p, 3);
  p.begin({}, {});
  spoil(p);  // and then a look that finds nothing
  p.grads()[0] = 1;
  p.measure(p.trainables(), 0, false, {});
  p.tally(p.trainables(), 0, false, {});
  p.clear_if_spoilt(p.grads(), {});
  CHECK(p.grads()[0] == 1);
  p.undo_if_spoilt(true, {});
  for (const double x : p.reducer_slot(0)) CHECK(x == 0);
  spoil(p);
  p.clear_if_spoilt(p.grads().subspan(0, 64), {});
  for (std::size_t i = 0; i < 320; ++i)
    CHECK(p.grads()[i] == (i < 64 ? 0 : 1000 + static_cast<double>(i)));
  p.begin({}, {});
  number(p, 3);
  p.undo_if_spoilt(true, {});
  CHECK(p.reducer_slot(0)[1] == 2001);
}

TEST_CASE("planes: what follows a spoilt look is not done") {
  memory<0, 0> p(cpu(1), t4_table);
  int done = 0;
  const auto rule = [&](const auto& v, cpu::stream) {
    CHECK(v.finite);
    CHECK(v.grads.size == 256);
    ++done;
  };
  p.unless_spoilt({}, rule);
  spoil(p);
  p.unless_spoilt({}, rule);
  CHECK(done == 1);
  p.begin({}, {});
  p.unless_spoilt({}, rule);
  CHECK(done == 2);
}

TEST_CASE("planes: a rule sees the same range of every plane, and the norms of its segments") {
  memory<2, 1> p(cpu(1), t4_table);
  number(p, 5);
  const auto some = p.trainables().subspan(1, 2);  // b1 and W2: 64 .. 191
  const auto v = p.sight(some, 1, true);
  CHECK(v.segments.data() == some.data());
  CHECK(v.segments.size() == 2);
  CHECK(v.finite);
  double thousands = 0;
  for (const auto plane : {v.weights, v.grads, v.slots[0], v.slots[1]}) {
    CHECK(plane.size == 128);  // up to where the next segment begins
    CHECK(plane[0] == thousands + 64);
    thousands += 1000;
  }
  CHECK(v.weight_squares.size == 2);
  CHECK(v.grad_squares.size == 2);
  CHECK(v.sums.size == 2);
  const auto all = p.sight(p.trainables(), 0, true);
  CHECK(v.grad_squares.data == all.grad_squares.data + 1);
  CHECK(v.weight_squares.data == all.weight_squares.data + 1);
  CHECK(v.sums.data == all.sums.data + 1);
  CHECK_FALSE(p.sight(some, 1, false).finite);
}

TEST_CASE("planes: the first segment that was not finite when measured is known; else the last") {
  memory<1, 0> p(cpu(1), t4_table);
  CHECK(p.first_not_finite({}).name == "b2");
  p.grads()[t4_table[3].offset] = p.grads()[t4_table[1].offset + 1] = std::nan("");
  p.measure(p.trainables(), 0, false, {});
  CHECK(p.first_not_finite({}).name == "b1");
}

TEST_CASE("planes: the views of all buckets cover every trainable number once") {
  memory<1, 0> p(cpu(1), t4_table);
  for (const std::size_t limit : {1u, 64u, 128u, 192u, 1000u}) {
    p.clear(p.grads(), {});
    std::size_t norms = 0;
    for (const bucket& b : cut(p.table(), limit)) {
      const auto v = p.sight(b.segments, b.first, true);
      CHECK(v.grads.data == p.grads().data + b.offset);
      CHECK(v.grads.size == b.size);
      for (double& g : v.grads) ++g;
      norms += v.grad_squares.size;
    }
    CHECK(norms == 4);
    for (std::size_t i = 0; i < 320; ++i) CHECK(p.grads()[i] == (i < 256 ? 1 : 0));
  }
}

TEST_CASE("planes: a reducer gets what was said, and its own planes' part of the bucket") {
  memory<1, 2> p(cpu(1), t4_table);
  number(p, 5);
  std::byte room[8];
  const auto buckets = cut(p.table(), 128);
  REQUIRE(buckets.size() == 2);
  const bucket& b = buckets[0];  // W2 and b2
  const auto m = p.letter(b, p.weights().subspan(b.offset, b.size), {room, 8});
  CHECK(m.which == &b);
  CHECK(m.what[0] == 128);
  CHECK(m.memory[0][0] == 3128);  // behind masters, gradients and the rule's slot
  CHECK(m.memory[1][0] == 4128);
  CHECK(m.memory[0].size == 128);
  CHECK(m.scratch.data == room);
}

TEST_CASE("planes: measuring fills the norms of those segments, which are tallied in all") {
  memory<0, 0> p(cpu(1), t4_table);
  const auto all = p.sight(p.trainables(), 0, true);
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      p.grads()[t4_table[k].offset + i] = static_cast<double>(k + 1);
      p.weights()[t4_table[k].offset + i] = 10;
    }
  p.measure(p.trainables().subspan(1, 2), 1, false, {});
  p.tally(p.trainables().subspan(1, 2), 1, false, {});
  CHECK(p.found({}).grad_square == 2 * 4 + 2 * 9);
  for (const std::size_t k : {0u, 3u}) CHECK(all.grad_squares[k] == 0);  // not asked for
  CHECK(all.grad_squares[1] == 8);
  CHECK(all.grad_squares[2] == 18);
  for (std::size_t k = 0; k < 4; ++k) CHECK(all.weight_squares[k] == 0);
  p.begin({}, {});
  p.measure(p.trainables(), 0, true, {});
  p.tally(p.trainables(), 0, false, {});
  CHECK(p.found({}).grad_square == 4 + 8 + 18 + 16);
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(all.weight_squares[k] == 100 * static_cast<double>(t4_table[k].size));
}

TEST_CASE("planes: the tallied norm is one number that all views share") {
  memory<0, 0> p(cpu(1), t4_table);
  p.grads()[0] = 6;
  p.grads()[192] = -3;
  p.measure(p.trainables(), 0, false, {});
  p.tally(p.trainables(), 0, true, {});
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(p.sight(p.trainables().subspan(k, 1), k, true).grad_square[0] == 45);
}

TEST_CASE("planes: clearing and copying touch the numbers that are named, and no others") {
  memory<0, 0> p(cpu(1), t4_table);
  number(p, 2);
  p.clear(p.weights().subspan(10, 3), {});
  p.copy(p.grads().subspan(0, 2), p.weights().subspan(100, 2), {});
  for (std::size_t i = 0; i < 320; ++i)
    CHECK(p.weights()[i] == (i >= 10 && i < 13 ? 0 : static_cast<double>(i)));
  CHECK(p.grads()[0] == 100);
  CHECK(p.grads()[1] == 101);
  CHECK(p.grads()[2] == 1002);
}
