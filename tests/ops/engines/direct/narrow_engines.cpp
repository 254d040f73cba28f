// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Instantiates `direct` on 16-byte registers for the tests of this folder and of ops/.
#include "tests/support/direct_engines.hpp"

template struct support::harness<cordee::detail::ops::direct_with<16>, float>;
template struct support::harness<cordee::detail::ops::direct_with<16>, double>;
