// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// That wrong reducers are refused, and by which sentence, is in tests/compile_fail/reducers.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/precision/fp16.hpp>

using namespace cordee;
using detail::comm::has_reducer_members;

namespace {

template <class... R>
constexpr bool all_hold =
    (... && (has_reducer_members<R, float, cpu>() && has_reducer_members<R, double, cpu>()));

// The defaults of reducer_base.
struct own : reducer_base<self_comm> {
  static constexpr agreement offers = agreement::exact;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, class D>
  void mix(bucket_view<Real, D, 0>, const step_info&, typename D::stream) const {}
};
struct own_final final : own {};
struct in_one_message : own {
  static constexpr bool single_message = true;
};

}  // namespace

static_assert(
    all_hold<ring<threads>, tree<threads>, butterfly<threads>, halving_doubling<threads>,
             one_shot<threads>, two_shot<threads>, native<threads>, double_tree<threads>>);
static_assert(
    all_hold<hierarchical<threads>, torus_ring<threads>, solo, gossip<threads>,
             hybrid<one_shot<threads>, two_shot<threads>>, compressed<ring<threads>, fp16>,
             server<threads>, server<threads, asynchronous>>);
static_assert(all_hold<own, own_final, in_one_message>);

TEST_CASE("message_limit: the bytes of a bucket, or none for reducers of a single message") {
  CHECK(detail::comm::message_limit<own>(1000) == 1000);
  CHECK(detail::comm::message_limit<solo>(1000) == 1000);
  CHECK(detail::comm::message_limit<one_shot<threads>>(1000) == 1000);
  CHECK(detail::comm::message_limit<hybrid<one_shot<threads>, two_shot<threads>>>(1000) == 1000);
  CHECK(detail::comm::message_limit<compressed<ring<threads>, fp16>>(1000) == 1000);
  CHECK(detail::comm::message_limit<in_one_message>(1000) == ~std::size_t{0});
  CHECK(detail::comm::message_limit<server<threads, asynchronous>>(1000) == ~std::size_t{0});
}
