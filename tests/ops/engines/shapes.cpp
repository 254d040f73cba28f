// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct` at the shapes of both families of residual networks.
#include "tests/support/direct_engines.hpp"
#include "tests/support/engine_shapes.hpp"

using namespace cordee;
using namespace support;

ENGINE_SHAPES(direct);
