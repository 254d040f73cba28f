// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is refused, and in which words: tests/compile_fail/pairings.cpp.
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/pairing.hpp>

using namespace cordee;

using exact = ring<threads>;
using mixing = gossip<threads, cycle>;
using lossy = narrow<exact, fp16>;

static_assert(pairing<sgd, solo>::holds && pairing<sgd, exact>::holds &&
              pairing<sgd, lossy>::holds);
static_assert(pairing<decentlam, exact>::holds && pairing<decentlam, mixing>::holds);
static_assert(pairing<local<sgd>, exact>::holds && pairing<local<sgd>, mixing>::holds);
static_assert(!Agrees<sgd, mixing> && !Agrees<decentlam, lossy> && Agrees<decentlam, mixing>);
