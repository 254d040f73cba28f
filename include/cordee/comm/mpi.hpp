// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Component mpi by its name: comm/transports/mpi.hpp.
#pragma once

#include <cordee/comm/transports/mpi.hpp>
