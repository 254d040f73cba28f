// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// std::min, std::max, std::copy, std::fill and std::equal without the rest of <algorithm>
// (docs/compile_time.md): what every trainer includes needs no more.
#pragma once

#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#else
#include <algorithm>
#endif
