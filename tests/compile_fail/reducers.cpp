// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which reducers can be composed is known at compile time; a member that is missing, has another
// signature or is misspelled is an error that names it.
#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/power_sgd.hpp>
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;

template <class R>
void use(const R& reducer) {
  static_assert(detail::comm::has_reducer_members<R, float, cpu>());
  (void)reducer.template scratch<float>(1);
}

// A reducer of the user's own, with one member wrong.
struct own : reducer_base<threads> {
#if !defined(WITHOUT_OFFERS)
  static constexpr agreement offers = agreement::exact;
#endif
#if defined(MISSPELLED_SINGLE_MESSAGE)
  static constexpr bool single_mesage = true;
#elif defined(MISSPELLED_SLOTS)
  static constexpr int slot = 1;
#elif defined(MISSPELLED_INITIALIZE)
  void initialise(bucket_view<float, cpu, 0>, cpu::stream) const {}
#elif defined(INITIALIZE_WITHOUT_STREAM)
  void initialize(bucket_view<float, cpu, 0>) const {}
#elif defined(ENQUEUE_RETURNS_A_NUMBER)
  template <class Real, Device D>
  int enqueue(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {
    return 0;
  }
#elif defined(ENQUEUE_WITHOUT_STEP)
  template <class Real, Device D>
  void enqueue(bucket_view<Real, D, 0>, typename D::stream) const {}
#elif defined(ENQUEUE_NOT_CONST)
  template <class Real, Device D>
  void enqueue(bucket_view<Real, D, 0>, const step_info&, typename D::stream) {}
#elif defined(ENQUEUE_OF_ANOTHER_MESSAGE)
  void enqueue(bucket_view<float, cpu, 1>, const step_info&, cpu::stream) const {}
#elif defined(SOURCES_WITHOUT_STEP)
  [[nodiscard]] std::vector<int> sources() const { return {}; }
#endif

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
#if !defined(WITHOUT_MIX)
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}
#endif
};

// Whose `enqueue` is constrained to transports that can.
struct constrained : own {
  template <class Real, Device D>
    requires detail::comm::EnqueuedMeanOn<threads, Real, D>
  void enqueue(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}
};

void compose(threads comm) {
#if defined(HYBRID_WITH_SLOTS)
  use(hybrid{double_tree{comm}, compressed{ring{comm}, bf16{}}});
#elif defined(SHARDED_COMPRESSED)
  use(sharded{compressed{ring{comm}, bf16{}}});
#elif defined(SHARDED_TREES)
  use(sharded{hierarchical{comm, nodes{2}}});
#elif defined(SHARDED_NATIVE_WITHOUT_HALVES)
  use(sharded{native{subgroup{comm, {0, 1}}}});
#elif defined(POWER_SGD_SHARDED)
  use(power_sgd{sharded{ring{comm}}});
#elif defined(HYBRID_OF_TWO_COMMUNICATORS)
  use(hybrid{double_tree{comm}, ring{subgroup{comm, {0, 1}}}});
#elif defined(COMPRESSED_TWICE)
  use(compressed{compressed{ring{comm}, bf16{}}, int8{}});
#elif defined(COMPRESSED_WITHOUT_HOPS)
  use(compressed{native{comm}, bf16{}});
#elif defined(ADASUM_ON_A_GPU)
  static_assert(detail::comm::has_reducer_members<adasum<self_comm>, float, support::emulated>());
#elif defined(GATHERED_ON_A_GPU)
  using of_top = gathered<self_comm, top_k>;
  static_assert(detail::comm::has_reducer_members<of_top, float, support::emulated>());
#else
  static_assert(detail::comm::has_reducer_members<ring<self_comm>, float, support::emulated>());
  use(sharded{hybrid{native{comm}, ring{comm}}});
  use(compressed{hybrid{double_tree{comm}, ring{comm}}, int8{}});
  use(hybrid{double_tree{subgroup{comm, {0, 1}}}, ring{subgroup{comm, {0, 1}}}, 100});
  use(own{comm});
  use(constrained{comm});
#endif
}
