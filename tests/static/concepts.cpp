// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// If it compiles it passes: archetypes of the policies, with and without what the concepts ask.
#include <cordee/cordee.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/slowed.hpp"

using namespace cordee;
using namespace support;

// Devices, transports and reducers.
struct no_device {};
static_assert(Device<cpu> && !Device<no_device>);
static_assert(TransportOn<threads, cpu> && TransportOn<alone, cpu> &&
              TransportOn<slowed<threads>, cpu>);
static_assert(!TransportOn<cpu, cpu>);
static_assert(ReducerOn<solo, float, cpu> && ReducerOn<ring<alone>, double, cpu> &&
              ReducerOn<gossip<threads>, float, cpu>);
static_assert(ReducerOn<tree<alone>, float, cpu> && ReducerOn<butterfly<threads>, double, cpu> &&
              ReducerOn<halving<alone>, float, cpu>);
static_assert(ReducerOn<native<threads>, float, cpu> && ReducerOn<native<alone>, float, cpu> &&
              !ReducerOn<native<slowed<threads>>, float, cpu>);
static_assert(ReducerOn<narrow<ring<threads>, fp16>, float, cpu> &&
              !NarrowsOn<native<threads>, fp16, float, cpu>);
struct ring_without_offers {
  using link_type = threads;
  static constexpr int slots = 0;
};
static_assert(!ReducerOn<ring_without_offers, float, cpu>);

// Rules and their pairings.
static_assert(OptimizerOn<sgd, float, cpu> && OptimizerOn<lars, double, cpu> &&
              OptimizerOn<local<lars>, float, cpu>);
static_assert(OptimizerOn<decentlam, float, cpu> && !OptimizerOn<ring<threads>, float, cpu>);
static_assert(Agrees<sgd, ring<threads>> && Agrees<sgd, solo> &&
              Agrees<local<sgd>, gossip<threads>>);
static_assert(!Agrees<sgd, gossip<threads>> && Agrees<decentlam, gossip<threads>>);

static_assert(Agrees<sgd, narrow<ring<threads>, fp16>> && Agrees<lars, native<threads>> &&
              !Agrees<decentlam, narrow<ring<threads>, fp16>>);

// Models, schedules, data.
static_assert(Model<quadratic<fp32>> && Model<resnet<8, fp64, cpu>> && !Model<int>);
static_assert(Schedule<constant> && Schedule<warmup<polynomial>> &&
              !AdaptiveSchedule<warmup<cosine>>);
static_assert(Dataset<idx> && Dataset<synthetic> && Dataset<subset<idx>> && !Dataset<cpu>);
static_assert(Precision<fp32> && Precision<fp64> && Precision<fp16> && !Precision<float>);
