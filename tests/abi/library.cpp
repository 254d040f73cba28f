// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <typeinfo>

std::size_t count_numbers(const cordee::extent& e) { return e.size(); }
const char* abi_of_library() { return typeid(cordee::extent).name(); }
