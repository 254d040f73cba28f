// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An invalid residual network does not compile.
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>

using namespace cordee;

#if defined(UNKNOWN_DEPTH)
constexpr extent out = detail::nn::resnet_layers<33, resnet_options{}>::out({3, 32, 32});
#elif defined(FEW_PIXELS)
constexpr extent out =
    detail::nn::resnet_layers<18, resnet_options{.image = {3, 32, 32}}>::out({3, 32, 32});
#elif defined(CIFAR_WITH_A_LARGE_STEM)
constexpr extent out =
    detail::nn::resnet_layers<20, resnet_options{.stem = stem::large}>::out({3, 32, 32});
#elif defined(IMAGENET_WITHOUT_PROJECTIONS)
constexpr extent out =
    detail::nn::resnet_layers<50, resnet_options{.shortcut = shortcut::a}>::out({3, 224, 224});
#elif defined(POOL_OF_PADDING)
constexpr extent out = max_pool<3, 2, 2>::out({3, 32, 32});
#elif defined(RESIDENT_WEIGHTS)
using partly = sequential<offload_weights<convolution<4>>, global_average_pool, linear<2>>;
constexpr extent out = network<partly, fp32, cpu, winograd, extent{1, 4, 4}, 2>::input;
#elif defined(NESTED_BLOCKS)
using nested = offload_weights<sequential<offload_weights<convolution<4>>, global_average_pool>>;
constexpr extent out = network<sequential<nested, offload_weights<linear<2>>>, fp32, cpu, winograd,
                               extent{1, 4, 4}, 2>::input;
#else
constexpr extent out =
    detail::nn::resnet_layers<18, resnet_options{.image = {3, 32, 32}, .stem = stem::small}>::out(
        {3, 32, 32});
static_assert(
    detail::nn::resnet_layers<18, resnet_options{.image = {3, 32, 32}, .stem = stem::large}>::out(
        {3, 32, 32}) == out);
#endif
static_assert(out.channels > 0);
