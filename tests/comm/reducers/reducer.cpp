// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The concept ReducerOn, by archetypes: a minimal reducer, and that one with one member wrong or
// missing. What validates a reducer is reducer_laws (cordee/testing/reducer_laws.hpp), in the test
// of that reducer; the compile-time check of its members is reducer_check.
#include <array>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/device/cpu.hpp>

using namespace cordee;

namespace {

/// Minimal.
struct minimal {
  using communicator_type = self_comm;
  static constexpr agreement offers = agreement::loose;
  static constexpr bool lossless = false;
  static constexpr int slots = 2;
  self_comm comm{};

  template <class Real>
  std::size_t scratch(std::size_t n) const {
    return n;
  }
  template <class Real, class D>
  void mix(bucket_view<Real, D, 2> m, const step_info&, typename D::stream) const {
    for (std::size_t i = 0; i < m.values.size; ++i) m.values[i] += m.slots[0][i] - m.slots[1][i];
  }
};

struct without_offers : minimal {
 private:
  static constexpr int offers = 0;
};
struct lossless_of_another_type : minimal {
  static constexpr struct {
  } lossless{};
};
struct without_communicator_type : minimal {
 private:
  using communicator_type = self_comm;
};
struct communicator_that_is_no_transport : minimal {
  using communicator_type = cpu;
  cpu comm{};
};
struct comm_of_another_type : minimal {
  int comm = 0;
};
struct scratch_of_another_type : minimal {
  template <class Real>
  const char* scratch(std::size_t) const {
    return "much";
  }
};
struct not_constant : minimal {
  template <class Real, class D>
  void mix(bucket_view<Real, D, 2>, const step_info&, typename D::stream) {}
};
struct mix_returns_int : minimal {
  template <class Real, class D>
  int mix(bucket_view<Real, D, 2>, const step_info&, typename D::stream) const {
    return 0;
  }
};
struct other_slots : minimal {
  static constexpr int slots = 1;
};
struct single_precision : minimal {
  template <class D>
  void mix(bucket_view<float, D, 2>, const step_info&, typename D::stream) const {}
};
struct not_copyable : minimal {
  not_copyable(const not_copyable&) = delete;
};

struct scratch_sizes {
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n == 7 ? 1000 : n * sizeof(Real);
  }
};

}  // namespace

static_assert(ReducerOn<minimal, float, cpu> && ReducerOn<minimal, double, cpu>);
static_assert(ReducerOn<single_precision, float, cpu> && !ReducerOn<single_precision, double, cpu>);
static_assert(!ReducerOn<without_offers, float, cpu> &&
              !ReducerOn<lossless_of_another_type, float, cpu>);
static_assert(!ReducerOn<without_communicator_type, float, cpu>);
static_assert(!ReducerOn<communicator_that_is_no_transport, float, cpu>);
static_assert(!ReducerOn<comm_of_another_type, float, cpu>);
static_assert(!ReducerOn<scratch_of_another_type, float, cpu>);
static_assert(!ReducerOn<not_constant, float, cpu> && !ReducerOn<mix_returns_int, float, cpu>);
static_assert(!ReducerOn<other_slots, float, cpu> && !ReducerOn<not_copyable, float, cpu>);
static_assert(!ReducerOn<minimal, float, int> && !ReducerOn<self_comm, float, cpu>);

TEST_CASE("reducer: values and slots of a bucket_view are the same range") {
  std::array<double, 3> x{1, 2, 3}, added{10, 20, 30}, subtracted{5, 5, 5};
  const auto on = [](std::array<double, 3>& a) { return span_on<double, cpu>{a.data(), 3}; };
  minimal{}.mix(bucket_view<double, cpu, 2>{nullptr, on(x), {on(added), on(subtracted)}, {}},
                step_info{}, cpu::stream{});
  CHECK(x == std::array<double, 3>{6, 17, 28});
}

TEST_CASE("largest_scratch: the scratch that suffices for each bucket") {
  std::array<bucket, 3> buckets;
  buckets[0].size = 12;
  buckets[1].size = 7;
  buckets[2].size = 30;
  CHECK(detail::comm::largest_scratch<double>(scratch_sizes{}, buckets) == 1000);
  CHECK(detail::comm::largest_scratch<double>(scratch_sizes{}, std::span(buckets).last(1)) == 240);
  CHECK(detail::comm::largest_scratch<double>(scratch_sizes{}, {}) == 0);
}
