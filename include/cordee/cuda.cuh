// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The component cuda: a GPU as a device, and every kernel that layers, rules and reducers ask of
// one. cordee.hpp includes it where a program of the component is compiled as CUDA.
#pragma once

#include <cordee/device/cuda.cuh>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/segmented.hpp>
