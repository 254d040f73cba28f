// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Component nccl by its name: comm/transports/nccl.hpp.
#pragma once

#include <cordee/comm/transports/nccl.hpp>
