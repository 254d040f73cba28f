// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes if it compiles: archetypes of the policies, with and without the members that concepts
// require.
#include <cordee/cordee.hpp>

#include "tests/support/delayed_comm.hpp"
#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace cordee::detail::data;
using namespace cordee::detail::schedule;
using namespace cordee::detail::train;
using namespace support;

// Devices, transports and reducers.
struct no_device {};
static_assert(Device<cpu> && !Device<no_device>);
static_assert(TransportOn<threads, cpu> && TransportOn<self_comm, cpu> &&
              TransportOn<delayed_comm<threads>, cpu>);
static_assert(!TransportOn<cpu, cpu>);
static_assert(ReducerOn<solo, float, cpu> && ReducerOn<ring<self_comm>, double, cpu> &&
              ReducerOn<gossip<threads>, float, cpu>);
static_assert(ReducerOn<tree<self_comm>, float, cpu> &&
              ReducerOn<butterfly<threads>, double, cpu> &&
              ReducerOn<halving_doubling<self_comm>, float, cpu>);
static_assert(ReducerOn<native<threads>, float, cpu> && ReducerOn<native<self_comm>, float, cpu> &&
              !ReducerOn<native<delayed_comm<threads>>, float, cpu>);
static_assert(ReducerOn<compressed<ring<threads>, fp16>, float, cpu> &&
              !CompressibleOn<native<threads>, fp16, float, cpu>);
struct ring_without_offers {
  using communicator_type = threads;
  static constexpr int slots = 0;
};
static_assert(!ReducerOn<ring_without_offers, float, cpu>);

// Optimizers and their pairings.
static_assert(OptimizerOn<sgd, float, cpu> && OptimizerOn<lars, double, cpu> &&
              OptimizerOn<local_steps<lars>, float, cpu>);
static_assert(OptimizerOn<decentlam, float, cpu> && !OptimizerOn<ring<threads>, float, cpu>);
static_assert(Compatible<sgd, ring<threads>> && Compatible<sgd, solo> &&
              Compatible<local_steps<sgd>, gossip<threads>>);
static_assert(!Compatible<sgd, gossip<threads>> && Compatible<decentlam, gossip<threads>>);

static_assert(Compatible<sgd, compressed<ring<threads>, fp16>> &&
              Compatible<lars, native<threads>> &&
              !Compatible<decentlam, compressed<ring<threads>, fp16>>);

// Models, schedules, data.
static_assert(Model<quadratic<fp32>> && Model<resnet<8, fp64, cpu>> && !Model<int>);
static_assert(Schedule<constant> && Schedule<warmup<polynomial>> &&
              !AdaptiveSchedule<warmup<cosine>>);
static_assert(Dataset<idx> && Dataset<synthetic> && Dataset<subset<idx>> && !Dataset<cpu>);
static_assert(Precision<fp32> && Precision<fp64> && Precision<fp16> && !Precision<float>);
