// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Topologies for gossip: fixed, time-varying, of any adjacency, and the lazy form of each.
#pragma once

#include <cordee/comm/topologies/adjacency.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/topologies/lazy.hpp>
#include <cordee/comm/topologies/time_varying.hpp>
