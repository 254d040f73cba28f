// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's program compiled for a GPU.
#include "bandwidth.cpp"
