// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which pairs are rejected, and for which reason. The compiler's messages are tested in
// tests/compile_fail/pairings.cpp.
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/checks/pairing.hpp>

using namespace cordee;
using namespace cordee::detail::train;

using exact = ring<threads>;
using mixing = gossip<threads, topologies::ring>;
using lossy = compressed<exact, fp16>;
using loose = server<threads, asynchronous>;

template <class O, class R>
constexpr pairing_error error_of = pairing<O, R>::error;

static_assert(Compatible<sgd, solo> && Compatible<sgd, exact> && Compatible<sgd, lossy>);
static_assert(Compatible<decentlam, exact> && Compatible<decentlam, mixing>);
static_assert(Compatible<local_steps<sgd>, exact> && Compatible<local_steps<sgd>, mixing> &&
              Compatible<local_steps<sgd>, loose>);
static_assert(require_compatible<sgd, exact>::holds &&
              require_compatible<decentlam, mixing>::holds);

static_assert(error_of<sgd, mixing> == pairing_error::gradients_not_averaged);
static_assert(error_of<sgd, loose> == pairing_error::gradients_not_averaged);
static_assert(error_of<decentlam, lossy> == pairing_error::weights_rounded);
static_assert(error_of<local_steps<sgd>, lossy> == pairing_error::weights_rounded);
static_assert(error_of<decentlam, loose> == pairing_error::mixing_not_doubly_stochastic);
static_assert(!Compatible<sgd, mixing> && !Compatible<decentlam, lossy> &&
              !Compatible<decentlam, loose>);
