// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Instantiates `direct` on the widest registers for the tests of this folder and of ops/.
#include "tests/support/direct_engines.hpp"

template struct support::harness<cordee::direct, float>;
template struct support::harness<cordee::direct, double>;
template struct support::harness<cordee::direct, cordee::half>;
template struct support::harness<cordee::direct, cordee::bfloat>;
