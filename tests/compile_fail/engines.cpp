// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network over an engine that lacks the precision does not compile.
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/amx/amx.hpp>
#include <cordee/ops/engines/blocked/engine.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>

using namespace cordee;

#if defined(BLOCKED_IN_BF16)
using network_precision = bf16;
using network_engine = cordee::blocked;
#elif defined(BLOCKED_IN_FP16)
using network_precision = fp16;
using network_engine = cordee::blocked;
#elif defined(AMX_WITHOUT_AMX)
using network_precision = bf16;
using network_engine =
    detail::ops::engine_of_other_builds<detail::ops::engine_name::amx>;  // amx there
#else
using network_precision = fp32;
using network_engine = cordee::blocked;
#endif
resnet<8, network_precision, cpu, resnet_options{}, network_engine> net;
