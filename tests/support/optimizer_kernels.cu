// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that a trainer launches for each optimizer, by the calls that the trainer makes. They
// have their types as names: what an optimizer launches is not written down a second time.
// On the CPU only: adamp_step and decayed_step_body (optim/adamp.hpp); muon_momentum and muon_step
// (train/muon/muon.hpp); one_bit_lamb_moments, one_bit_lamb_body and one_bit_lamb_descent
// (optim/one_bit_lamb.hpp); added_with (nn/uphill.hpp).
// Covers: include/cordee/optim
#include <span>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/train/step/planes.hpp>

using namespace cordee;

namespace {

/// A step as the trainer performs it. Never called: nvcc compiles what it launches.
template <class O>
struct one_step {
  static void take(const O& optimizer, detail::train::planes<float, gpu, O, solo>& planes,
                   const step_info& info, std::span<const segment> all, gpu::stream s) {
    planes.initialize(optimizer, solo{}, {}, s);
    planes.begin_step(info, true, s);
    planes.compute_norms(all, 0, true, s);
    planes.record_norms(all, 0, true, s);
    planes.add_local_norms(all, 0, s);
    planes.undo_if_nonfinite(true, s);
    const auto v = planes.view_of(all, 0, true);
    detail::optim::proposal(optimizer, v, info, s);
    if constexpr (O::needs == agreement::exact)
      planes.unless_nonfinite(
          s, [&](const auto& view, auto stream) { optimizer.accept(view, info, stream); });
    else
      optimizer.accept(v, info, s);
  }
};

}  // namespace

template struct one_step<sgd>;
template struct one_step<velocity_sgd>;
template struct one_step<lars>;
template struct one_step<lars_lr_outside>;
template struct one_step<lars_unscaled>;
template struct one_step<larc>;
template struct one_step<lars_norm_of_sum>;
template struct one_step<adam>;
template struct one_step<adamw>;
template struct one_step<lamb>;
template struct one_step<nvlamb>;
template struct one_step<deepspeed_lamb>;
template struct one_step<lambc>;
template struct one_step<lans>;
template struct one_step<lion>;
template struct one_step<adan>;
template struct one_step<schedule_free_sgd>;
template struct one_step<schedule_free_adamw>;
template struct one_step<rmsprop>;
template struct one_step<centered_rmsprop>;
template struct one_step<rmsprop_warmup>;
template struct one_step<decentlam>;
template struct one_step<decentlam_over<sgd>>;
template struct one_step<decentlam_over<velocity_sgd>>;
template struct one_step<decentlam_over<lars>>;
template struct one_step<decentlam_over<lamb>>;
template struct one_step<decentlam_over<adamw>>;
template struct one_step<adapt_while_combine<sgd>>;
template struct one_step<qg_dmsgd>;
template struct one_step<local_steps<sgd>>;
template struct one_step<one_bit_adam>;
template struct one_step<zero_one_adam>;
template struct one_step<outer_momentum<local_steps<sgd>>>;
template struct one_step<clip<sgd>>;
template struct one_step<clip<lars>>;
template struct one_step<parameter_groups<sgd, 1>>;
template struct one_step<lookahead<sgd>>;
template struct one_step<weight_average<sgd, exponential_average>>;
template struct one_step<weight_average<sgd, stochastic_average>>;
