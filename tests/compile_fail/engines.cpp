// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An engine that lacks a precision says so when a network is made of it.
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/convolution_onednn.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>

using namespace cordee;

#ifdef ONEDNN_IN_FP64
using precision_asked_for = fp64;
#else
using precision_asked_for = fp32;
#endif
resnet<8, precision_asked_for, cpu, shape{}, onednn> net;
