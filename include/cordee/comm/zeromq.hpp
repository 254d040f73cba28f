// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Component zeromq by its name: comm/transports/zeromq.hpp.
#pragma once

#include <cordee/comm/transports/zeromq.hpp>
