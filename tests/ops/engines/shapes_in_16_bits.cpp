// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's engines of fp16 and bf16 at the shapes of both families of residual networks.
#include <cordee/ops/engines/winograd/engine.hpp>

#include "tests/support/direct_engines.hpp"
#include "tests/support/engine_shapes.hpp"

using namespace cordee;
using namespace support;

ENGINE_SHAPES(in_16_bits<direct>, in_16_bits<winograd>);
