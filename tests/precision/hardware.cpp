// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/hardware.hpp>

static_assert(!cordee::detail::precision::on_gpu, "the host converts by integer arithmetic");
static_assert(cordee::half::nearest(1.0f).bits == 0x3c00);
