// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network over an engine that lacks the precision does not compile.
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/onednn/engine.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>

using namespace cordee;

#ifdef ONEDNN_IN_FP64
using network_precision = fp64;
#else
using network_precision = fp32;
#endif
resnet<8, network_precision, cpu, resnet_options{}, onednn> net;
