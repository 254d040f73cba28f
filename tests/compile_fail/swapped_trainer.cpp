// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run whose model works beside the step does not leave the device.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/swapped_trainer.hpp>
#include <cordee/train/trainer.hpp>

using namespace cordee;

using net_type = resnet<8, fp32, cpu>;
#if defined(LOOKS_AHEAD)
using model_type = adversarial<net_type>;
#else
using model_type = net_type;
#endif
static_assert(sizeof(swapped_trainer<trainer<model_type, sgd, constant, solo>>) > 0);
