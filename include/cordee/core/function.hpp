// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// std::function without <functional>, which since C++17 includes <unordered_map>
// (docs/compile_time.md).
#pragma once

#if __has_include(<bits/std_function.h>)
#include <bits/std_function.h>
#else
#include <functional>
#endif
