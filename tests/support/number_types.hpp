// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers for which kernels of GPUs are instantiated in an emulator, where each costs seconds:
// all of them with all tests, usually half and float, of two of 16 bits bfloat, of two reals float.
#pragma once

#if defined(CORDEE_ALL_TESTS)
#define EMULATED_NUMBERS half, bfloat, float, double
#define EMULATED_HALVES half, bfloat
#define EMULATED_REALS float, double
#else
#define EMULATED_NUMBERS half, float
#define EMULATED_HALVES bfloat
#define EMULATED_REALS float
#endif
