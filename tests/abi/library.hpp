// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What one unit of tests/abi offers to the other.
#pragma once

#include <cordee/core/extent.hpp>

std::size_t count_numbers(const cordee::extent& e);  // the signature names a type of the library
const char* abi_of_library();                        // this one does not
