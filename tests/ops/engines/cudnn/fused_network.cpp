// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks with the layers of ResNet-50 by the engine cudnn that fuses batch norms, over a double
// of cuDNN: a stem with a max pool, bottlenecks with a projection and with an identity.
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/normalized_max_pool.hpp>

#include "tests/support/fused_run.hpp"

using namespace cordee;
using namespace support;

namespace {

template <int Width, class Shortcut, int Ghosts = 0>
using bottleneck =
    residual<sequential<convolution<Width, 1>, batch_norm<relu, batch_norm_options{1, Ghosts}>,
                        convolution<Width, 3>, batch_norm<relu, batch_norm_options{1, Ghosts}>,
                        convolution<4 * Width, 1>>,
             batch_norm<identity, batch_norm_options{1, Ghosts}>, Shortcut>;
template <class... Layers>
using pooled = sequential<convolution<16, 7, 2>, Layers..., global_average_pool, linear<10>>;
template <class Layers, class Engine, class P = fp16, class D = host_cuda>
using small = network<Layers, P, D, Engine, extent{3, 16, 16}, 10>;

template <class Engine, class P = fp16, class D = host_cuda>
using small_resnet =
    small<pooled<batch_norm<relu>, max_pool<3, 2>, bottleneck<8, projection<32, 1>>,
                 bottleneck<8, identity>, bottleneck<8, identity>>,
          Engine, P, D>;

}  // namespace

TEST_CASE("cudnn: a step of a network with a max pool is as near to fp32 fused as plain") {
  begin_double();
  const fused_run_options two{.steps = 2, .accumulate = 2};
  const fused_run exact = train_fused<small_resnet<plain_cudnn, fp32>>(two),
                  plain = train_fused<small_resnet<plain_cudnn>>(two),
                  fused = train_fused<small_resnet<fusing_cudnn>>(two);
  CHECK(distance(fused.gradients, exact.gradients) <=
        1.5 * distance(plain.gradients, exact.gradients));
  CHECK(distance(fused.weights, exact.weights) <= 1.5 * distance(plain.weights, exact.weights));
  CHECK(distance(fused.gradients, plain.gradients) > 0);
  // Without a plan of cuDNN the max pool is fused alone: forward has the bits of the plain form.
  host_cudnn none;
  none.engines[0].fuses = false;
  begin_double(none);
  const fused_run pool = train_fused<small_resnet<fusing_cudnn>>(),
                  same = train_fused<small_resnet<plain_cudnn>>();
  CHECK(pool.fused == 0);
  CHECK(pool.losses == same.losses);
  CHECK(pool.gradients != same.gradients);  // sums in another order
  CHECK(distance(pool.gradients, same.gradients) < 2e-3);
}
