// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concept: one that is as small as can be, and that one short of each thing.
#include <array>

#include <doctest/doctest.h>

#include <cordee/comm/reducer.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/device/cpu.hpp>

using namespace cordee;

namespace {

/// The least that is a reducer.
struct least {
  using link_type = alone;
  static constexpr agreement offers = agreement::loose;
  static constexpr bool lossless = false;
  static constexpr int slots = 2;
  alone link{};

  template <class Real>
  std::size_t scratch(std::size_t n) const {
    return n;
  }
  template <class Real, class D>
  void mix(message<Real, D, 2> m, const moment&, typename D::stream) const {
    for (std::size_t i = 0; i < m.what.size; ++i) m.what[i] += m.memory[0][i] - m.memory[1][i];
  }
};

struct no_offer : least {
 private:
  static constexpr int offers = 0;
};
struct no_losslessness : least {
  static constexpr struct {
  } lossless{};
};
struct no_link_type : least {
 private:
  using link_type = alone;
};
struct link_that_is_no_transport : least {
  using link_type = cpu;
  cpu link{};
};
struct link_of_another_type : least {
  int link = 0;
};
struct scratch_in_words : least {
  template <class Real>
  const char* scratch(std::size_t) const {
    return "much";
  }
};
struct not_constant : least {
  template <class Real, class D>
  void mix(message<Real, D, 2>, const moment&, typename D::stream) {}
};
struct answering : least {
  template <class Real, class D>
  int mix(message<Real, D, 2>, const moment&, typename D::stream) const {
    return 0;
  }
};
struct other_slots : least {
  static constexpr int slots = 1;
};
struct single_precision : least {
  template <class D>
  void mix(message<float, D, 2>, const moment&, typename D::stream) const {}
};
struct not_copyable : least {
  not_copyable(const not_copyable&) = delete;
};

struct wanting {
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n == 7 ? 1000 : n * sizeof(Real);
  }
};

}  // namespace

static_assert(ReducerOn<least, float, cpu> && ReducerOn<least, double, cpu>);
static_assert(ReducerOn<single_precision, float, cpu> && !ReducerOn<single_precision, double, cpu>);
static_assert(!ReducerOn<no_offer, float, cpu> && !ReducerOn<no_losslessness, float, cpu>);
static_assert(!ReducerOn<no_link_type, float, cpu>);
static_assert(!ReducerOn<link_that_is_no_transport, float, cpu>);
static_assert(!ReducerOn<link_of_another_type, float, cpu>);
static_assert(!ReducerOn<scratch_in_words, float, cpu>);
static_assert(!ReducerOn<not_constant, float, cpu> && !ReducerOn<answering, float, cpu>);
static_assert(!ReducerOn<other_slots, float, cpu> && !ReducerOn<not_copyable, float, cpu>);
static_assert(!ReducerOn<least, float, int> && !ReducerOn<alone, float, cpu>);

TEST_CASE("reducer: what it multiplies and what it remembers are the same range, side by side") {
  std::array<double, 3> x{1, 2, 3}, seen{10, 20, 30}, gone{5, 5, 5};
  const auto on = [](std::array<double, 3>& a) { return span_on<double, cpu>{a.data(), 3}; };
  least{}.mix(message<double, cpu, 2>{nullptr, on(x), {on(seen), on(gone)}, {}}, moment{},
              cpu::stream{});
  CHECK(x == std::array<double, 3>{6, 17, 28});
}

TEST_CASE("reducer: scratch for all messages is that of the largest") {
  std::array<bucket, 3> some;
  some[0].size = 12;
  some[1].size = 7;
  some[2].size = 30;
  CHECK(largest_scratch<double>(wanting{}, some) == 1000);
  CHECK(largest_scratch<double>(wanting{}, std::span(some).last(1)) == 240);
  CHECK(largest_scratch<double>(wanting{}, {}) == 0);
}
