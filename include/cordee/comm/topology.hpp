// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs for gossip: fixed, changing, your own, and the lazy form of each.
#pragma once

#include <cordee/comm/topology/changing.hpp>
#include <cordee/comm/topology/fixed.hpp>
#include <cordee/comm/topology/lazy.hpp>
#include <cordee/comm/topology/user_graph.hpp>
