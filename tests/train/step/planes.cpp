// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/step/planes.hpp>
#include <cordee/train/step/skip_limits.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using support::t4_table;

namespace {

template <int Slots>
struct policy {
  static constexpr int slots = Slots;
};

template <int Optimizer, int Reducer>
using memory = detail::train::planes<double, cpu, policy<Optimizer>, policy<Reducer>>;

/// Element i of plane k becomes 1000 k + i.
template <class P>
void fill(P& p, int planes) {
  double* const all = p.weights().data;
  for (std::size_t i = 0; i < 320 * static_cast<std::size_t>(planes); ++i)
    all[i] = static_cast<double>(i / 320 * 1000 + i % 320);
}

/// Records a NaN in the gradient, which is then as before.
template <class P>
void record_nan(P& p) {
  double& g = p.grads()[p.trainables().back().offset];
  const double before = std::exchange(g, std::nan(""));
  p.compute_norms(p.trainables(), 0, false, {});
  p.record_norms(p.trainables(), 0, false, {});
  g = before;
}

}  // namespace

TEST_CASE("planes: weights, gradients, optimizer slots and reducer slots are contiguous") {
  memory<2, 1> p(cpu(1), t4_table);
  CHECK(p.bytes() == 5 * 320 * sizeof(double));
  const double* const start = p.weights().data;
  CHECK(p.grads().data == start + 320);
  CHECK(p.slot(0).data == start + 640);
  CHECK(p.slot(1).data == start + 960);
  CHECK(p.reducer_slot(0).data == start + 1280);
  CHECK(memory<0, 0>(cpu(1), t4_table).bytes() == 2 * 320 * sizeof(double));
}

TEST_CASE("planes: gradients in memory of their own start at zero, and the others are contiguous") {
  std::vector<double> own(320, 7.0);
  bool freed = false;
  {
    memory<2, 1> p(cpu(1), t4_table, {},
                   {own.data(), &freed, [](void* f) { *static_cast<bool*>(f) = true; }});
    CHECK(p.bytes() == 5 * 320 * sizeof(double));
    CHECK(p.grads().data == own.data());
    CHECK(p.grads().size == 320);
    for (const double g : own) CHECK(g == 0);
    const double* const start = p.weights().data;
    CHECK(p.slot(0).data == start + 320);
    CHECK(p.slot(1).data == start + 640);
    CHECK(p.reducer_slot(0).data == start + 960);
    CHECK(!freed);
  }
  CHECK(freed);
}

TEST_CASE("planes: frozen segments have no slots, unless these are made of the weights") {
  memory<2, 1> p(cpu(1), t4_table, "W1, b");  // but for W2
  CHECK(p.bytes() == (2 * 320 + 3 * 64) * sizeof(double));
  const double* const start = p.weights().data;
  for (int k = 0; k < 3; ++k) {
    const auto held = p.held_slot(k);
    CHECK((held.numbers.data == start + 320 + 64 * k && held.numbers.size == 64));
    for (const std::size_t s : {0u, 1u, 2u, 3u}) CHECK(held.has(t4_table[s]) == (s == 2));
    CHECK_THROWS_AS(static_cast<void>(p.slot(k)), usage_error);
  }
  const auto view = p.view_of(p.trainables(), 0, true);
  CHECK(view.weights.data == start + 128);
  CHECK((view.slots[1].data == start + 320 + 64 && view.slots[1].size == 64));
  const bucket b{0, 128, 64, p.trainables(), 0};
  CHECK(p.bucket_view_of(b, p.grads(), {}).slots[0].data == start + 320 + 128);
  p.held_slot(2).numbers[63] = p.held_slot(1).numbers[63] = 3;
  record_nan(p);
  p.undo_if_nonfinite(true, {});
  for (const double x : p.held_slot(2).numbers) CHECK(x == 0);
  CHECK(p.held_slot(1).numbers[63] == 3);
  struct averaging : policy<1> {
    void initialize(const optimizer_view<double, cpu, 1>&, cpu::stream) const {}
  };
  struct around : policy<1> {  // whose slot is another's
    averaging optimizer;
  };
  detail::train::planes<double, cpu, around, policy<0>> whole(cpu(1), t4_table, "W1, b");
  CHECK(whole.slot(0).size == 320);
}

TEST_CASE("planes: all elements start at zero; a plane has the size of the padded table") {
  memory<1, 1> p(cpu(1), t4_table);
  for (const auto plane : {p.weights(), p.grads(), p.slot(0), p.reducer_slot(0)}) {
    CHECK(plane.size == 320);
    CHECK(std::vector<double>(plane.begin(), plane.end()) == std::vector<double>(320));
  }
}

TEST_CASE("planes: trainables() is the table without its statistics, which are a plane's tail") {
  memory<0, 0> p(cpu(1), t4_table);
  CHECK(p.table().size() == 5);
  CHECK(p.trainables().size() == 4);
  CHECK(p.trainables().back().name == "b2");
  CHECK(p.statistics().data == p.weights().data + 256);
  CHECK(p.statistics().size == 64);
}

TEST_CASE("planes: a table may have statistics only, or none") {
  memory<0, 0> none(cpu(1), std::span(t4_table).first(4));
  CHECK(none.statistics().size == 0);
  none.begin_step({}, true, {});
  record_nan(none);
  none.undo_if_nonfinite(true, {});
  constexpr segment seen[] = {{"seen", kind::statistic, 0, 1}};
  memory<0, 0> only(cpu(1), seen);
  CHECK(only.trainables().empty());
  CHECK(only.statistics().data == only.weights().data);
  CHECK(only.statistics().size == 64);
}

TEST_CASE("planes: a NaN restores the statistics of before the step, and nothing else") {
  for (const bool nonfinite : {true, false}) {
    memory<1, 0> p(cpu(1), t4_table);
    fill(p, 3);
    p.begin_step({}, true, {});
    for (const auto plane : {p.weights(), p.grads(), p.slot(0)})
      for (double& x : plane) x = -1;
    if (nonfinite) record_nan(p);
    const double grad = p.grads()[300];
    p.undo_if_nonfinite(true, {});
    for (std::size_t i = 0; i < 320; ++i)
      CHECK(p.weights()[i] == (nonfinite && i >= 256 ? static_cast<double>(i) : -1));
    CHECK(p.grads()[300] == grad);
    CHECK(p.slot(0)[300] == -1);
  }
}

TEST_CASE("planes: a bucket is cleared for its own NaN, the reducer's slots for any of the step") {
  memory<0, 1> p(cpu(1), t4_table);
  fill(p, 3);
  p.begin_step({}, true, {});
  record_nan(p);  // and then a record of finite norms
  p.grads()[0] = 1;
  p.compute_norms(p.trainables(), 0, false, {});
  p.record_norms(p.trainables(), 0, false, {});
  p.clear_if_nonfinite(p.grads(), {});
  CHECK(p.grads()[0] == 1);
  p.undo_if_nonfinite(true, {});
  for (const double x : p.reducer_slot(0)) CHECK(x == 0);
  record_nan(p);
  p.clear_if_nonfinite(p.grads().subspan(0, 64), {});
  for (std::size_t i = 0; i < 320; ++i)
    CHECK(p.grads()[i] == (i < 64 ? 0 : 1000 + static_cast<double>(i)));
  p.begin_step({}, true, {});
  fill(p, 3);
  p.undo_if_nonfinite(true, {});
  CHECK(p.reducer_slot(0)[1] == 2001);
}

TEST_CASE("planes: unless_nonfinite() runs nothing after a NaN") {
  memory<0, 0> p(cpu(1), t4_table);
  int done = 0;
  const auto optimizer = [&](const auto& v, cpu::stream) {
    CHECK(v.finite);
    CHECK(v.grads.size == 256);
    ++done;
  };
  p.unless_nonfinite({}, optimizer);
  record_nan(p);
  p.unless_nonfinite({}, optimizer);
  CHECK(done == 1);
  p.begin_step({}, true, {});
  p.unless_nonfinite({}, optimizer);
  CHECK(done == 2);
}

TEST_CASE("planes: view_of() has the same range of every plane and the norms of its segments") {
  memory<2, 1> p(cpu(1), t4_table);
  fill(p, 5);
  const auto some = p.trainables().subspan(1, 2);  // b1 and W2: 64 .. 191
  const auto v = p.view_of(some, 1, true);
  CHECK(v.segments.data() == some.data());
  CHECK(v.segments.size() == 2);
  CHECK(v.finite);
  double thousands = 0;
  for (const auto plane : {v.weights, v.grads, v.slots[0], v.slots[1]}) {
    CHECK(plane.size == 128);  // up to where the next segment begins
    CHECK(plane[0] == thousands + 64);
    thousands += 1000;
  }
  CHECK(v.squared_weight_norms.size == 2);
  CHECK(v.squared_grad_norms.size == 2);
  CHECK(v.sums.size == 2);
  const auto all = p.view_of(p.trainables(), 0, true);
  CHECK(v.squared_grad_norms.data == all.squared_grad_norms.data + 1);
  CHECK(v.squared_weight_norms.data == all.squared_weight_norms.data + 1);
  CHECK(v.sums.data == all.sums.data + 1);
  CHECK_FALSE(p.view_of(some, 1, false).finite);
}

TEST_CASE("planes: nonfinite_segments are the first and the last with a NaN, or the last one") {
  memory<1, 0> p(cpu(1), t4_table);
  const auto names = [&p] {
    p.compute_norms(p.trainables(), 0, false, {});
    const auto of = detail::train::nonfinite_segments(p.trainables(), p.squared_grad_norms({}));
    return std::string(of.first) + " " + std::string(of.last);
  };
  CHECK(names() == "b2 b2");
  p.grads()[t4_table[1].offset + 1] = std::nan("");
  CHECK(names() == "b1 b1");
  p.grads()[t4_table[0].offset] = std::nan("");
  CHECK(names() == "W1 b1");
  p.grads()[t4_table[3].offset] = std::nan("");
  CHECK(names() == "W1 b2");
}

TEST_CASE("planes: the views of all buckets cover every trainable element once") {
  memory<1, 0> p(cpu(1), t4_table);
  for (const std::size_t limit : {1u, 64u, 128u, 192u, 1000u}) {
    p.clear(p.grads(), {});
    std::size_t norms = 0;
    for (const bucket& b : detail::core::make_buckets(p.table(), limit)) {
      const auto v = p.view_of(b.segments, b.first_segment, true);
      CHECK(v.grads.data == p.grads().data + b.offset);
      CHECK(v.grads.size == b.size);
      for (double& g : v.grads) ++g;
      norms += v.squared_grad_norms.size;
    }
    CHECK(norms == 4);
    for (std::size_t i = 0; i < 320; ++i) CHECK(p.grads()[i] == (i < 256 ? 1 : 0));
  }
}

TEST_CASE(
    "planes: bucket_view_of() has the proposal and the bucket's part of the reducer's slots") {
  memory<1, 2> p(cpu(1), t4_table);
  fill(p, 5);
  std::byte scratch[8];
  const auto buckets = detail::core::make_buckets(p.table(), 128);
  REQUIRE(buckets.size() == 2);
  const bucket& b = buckets[0];  // W2 and b2
  const auto m = p.bucket_view_of(b, p.weights().subspan(b.offset, b.size), {scratch, 8});
  CHECK(m.layout == &b);
  CHECK(m.values[0] == 128);
  CHECK(m.slots[0][0] == 3128);  // behind weights, gradients and the optimizer's slot
  CHECK(m.slots[1][0] == 4128);
  CHECK(m.slots[0].size == 128);
  CHECK(m.scratch.data == scratch);
}

TEST_CASE("planes: compute_norms() fills the norms of its segments, record_norms() adds them up") {
  memory<0, 0> p(cpu(1), t4_table);
  const auto all = p.view_of(p.trainables(), 0, true);
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      p.grads()[t4_table[k].offset + i] = static_cast<double>(k + 1);
      p.weights()[t4_table[k].offset + i] = 10;
    }
  p.compute_norms(p.trainables().subspan(1, 2), 1, false, {});
  p.record_norms(p.trainables().subspan(1, 2), 1, false, {});
  CHECK(p.read_status({}).squared_global_norm == 2 * 4 + 2 * 9);
  for (const std::size_t k : {0u, 3u}) CHECK(all.squared_grad_norms[k] == 0);  // of other segments
  CHECK(all.squared_grad_norms[1] == 8);
  CHECK(all.squared_grad_norms[2] == 18);
  for (std::size_t k = 0; k < 4; ++k) CHECK(all.squared_weight_norms[k] == 0);
  p.begin_step({}, true, {});
  p.compute_norms(p.trainables(), 0, true, {});
  p.record_norms(p.trainables(), 0, false, {});
  CHECK(p.read_status({}).squared_global_norm == 4 + 8 + 18 + 16);
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(all.squared_weight_norms[k] == 100 * static_cast<double>(t4_table[k].size));
}

TEST_CASE("planes: all views refer to one squared_global_norm") {
  memory<0, 0> p(cpu(1), t4_table);
  p.grads()[0] = 6;
  p.grads()[192] = -3;
  p.compute_norms(p.trainables(), 0, false, {});
  p.record_norms(p.trainables(), 0, true, {});
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(p.view_of(p.trainables().subspan(k, 1), k, true).squared_global_norm[0] == 45);
}

TEST_CASE("planes: clear() and copy() write their range and nothing else") {
  memory<0, 0> p(cpu(1), t4_table);
  fill(p, 2);
  p.clear(p.weights().subspan(10, 3), {});
  p.copy(p.grads().subspan(0, 2), p.weights().subspan(100, 2), {});
  for (std::size_t i = 0; i < 320; ++i)
    CHECK(p.weights()[i] == (i >= 10 && i < 13 ? 0 : static_cast<double>(i)));
  CHECK(p.grads()[0] == 100);
  CHECK(p.grads()[1] == 101);
  CHECK(p.grads()[2] == 1002);
}
