// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// <algorithm> without parallel algorithms and those of ranges, which since C++20 are half of it
// (docs/compile_time.md).
#pragma once

#if __has_include(<bits/stl_algo.h>)
#include <bits/stl_algo.h>
#else
#include <algorithm>
#endif
