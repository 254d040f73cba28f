// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A precision that the device does not compute in does not compile.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/calibrate.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;

template <class P, class D>
using net = network<linear<2>, P, D, reference, extent{1, 1, 1}, 2>;

#if defined(BF16_WITH_DOUBLE_MASTERS)
struct double_masters : bf16 {
  using master = double;
};
constexpr int classes = net<double_masters, cpu>::classes;
#elif defined(CALIBRATION_ON_A_GPU)
constexpr int classes = 2;
struct run {
  using model_type = net<int8, support::emulated>;
  using device = support::emulated;
};
void refused(run& on_gpu) {
  loader feed{synthetic{}, self_comm{}, {.global_batch = 1}};
  calibrate(on_gpu, feed, 1);
}
#else
constexpr int classes = net<fp32, cpu>::classes + net<bf16, cpu>::classes +
                        net<bf16, support::emulated>::classes +
                        net<int8, support::emulated>::classes;
#endif
static_assert(classes > 0);
