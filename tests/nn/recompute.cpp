// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <doctest/doctest.h>

#include <cordee/nn/dropout.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;

namespace {

template <bool Recomputed, int Channels, int Stride, class Shortcut, int GhostBatch>
using block = detail::nn::block_of<
    Recomputed, residual<sequential<convolution<Channels, 3, Stride>,
                                    batch_norm<relu, batch_norm_options{1, GhostBatch}>,
                                    convolution<Channels, 3>>,
                         batch_norm<identity, batch_norm_options{1, GhostBatch}>, Shortcut>>;

/// Max pool, two shortcuts and dropout in blocks, which are recomputed or not.
template <bool Recomputed, int GhostBatch = 0>
using deep = network<
    sequential<detail::nn::block_of<
                   Recomputed, sequential<convolution<12, 3>, batch_norm<relu>, max_pool<3, 2>>>,
               block<Recomputed, 20, 2, projection<20, 2, GhostBatch>, GhostBatch>,
               block<Recomputed, 20, 1, identity, GhostBatch>,
               detail::nn::block_of<Recomputed, sequential<global_average_pool, dropout>>,
               linear<5>>,
    fp32, cpu, direct, extent{3, 33, 15}, 5>;

/// Weights with running statistics, gradients and logits behind some passes.
template <class Net, class F>
std::vector<float> numbers_of(const F& prepare) {
  network_fixture<Net> b(7, 3, 2);
  prepare(b);
  std::vector<float> all;
  for (const auto& part : {b.samples(0, 7, 7), b.samples(1, 5, 5), b.samples(2, 1, 1)}) {
    b.forward(part);
    all.insert(all.end(), b.net.logits().begin(), b.net.logits().end());
    b.backward();
    all.insert(all.end(), b.gradients().begin(), b.gradients().end());
  }
  b.forward(b.samples(0, 7, 7), phase::evaluate);
  all.insert(all.end(), b.net.logits().begin(), b.net.logits().end());
  all.insert(all.end(), b.weights().begin(), b.weights().end());
  return all;
}
template <int GhostBatch = 0, class F>
void check_same_bits(const F& prepare) {
  const auto plain = numbers_of<deep<false, GhostBatch>>(prepare);
  CHECK(std::any_of(plain.begin(), plain.end(), [](float x) { return x != 0; }));
  CHECK(plain == numbers_of<deep<true, GhostBatch>>(prepare));
}

}  // namespace

TEST_CASE("recompute: logits, gradients and running statistics have the bits of the block itself") {
  check_same_bits([](auto&) {});
  check_same_bits([](auto& b) { b.net.dropout_rate = 0.5; });
  check_same_bits([](auto& b) { b.net.batch_norm_moving_average = false; });
  check_same_bits([](auto& b) { b.net.freeze_batch_norm_at = 0; });
  check_same_bits<2>([](auto& b) { b.net.dropout_rate = 0.1; });
}

TEST_CASE("recompute: frozen tensors, in part of a block and before the first that is not") {
  for (const std::size_t first : {std::size_t{1}, std::size_t{7}})
    check_same_bits([&](auto& b) {
      std::vector<std::uint8_t> frozen(b.net.tensors());
      std::fill_n(frozen.begin(), first, std::uint8_t{1});
      frozen[first + 2] = 1;
      b.net.freeze(frozen);
    });
}

TEST_CASE("recompute: statistics that ranks share are exchanged once") {
  const auto calls_of = [](auto& b) {
    int calls = 0;
    b.net.batch_norm_allreduce = {
        [](void* count, std::span<double>) { ++*static_cast<int*>(count); }, &calls};
    b.forward();
    b.backward();
    return calls;
  };
  network_fixture<deep<false>> plain(4);
  network_fixture<deep<true>> recomputed(4);
  const int calls = calls_of(plain);
  CHECK(calls > 0);
  CHECK(calls_of(recomputed) == calls);
  CHECK(std::equal(plain.gradients().begin(), plain.gradients().end(),
                   recomputed.gradients().begin()));
}

TEST_CASE("recompute: the same names, and less memory") {
  for (std::size_t k = 0; k < deep<false>::segments().size(); ++k)
    CHECK(deep<false>::segments()[k].name == deep<true>::segments()[k].name);
  using plain = resnet<20, fp32, cpu, resnet_options{}, reference>;
  using recomputed = resnet<20, fp32, cpu, resnet_options{.recompute = true}, reference>;
  CHECK(static_cast<double>(recomputed{}.bytes_per_sample()) <
        0.65 * static_cast<double>(plain{}.bytes_per_sample()));
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("recompute: a pass allocates what the network says, and says of the other choice") {
  constexpr int samples = 64;
  const auto taken = []<class Net>(network_fixture<Net> b) {  // by the first pass
    const auto in_use = [] {
      const struct ::mallinfo2 m = ::mallinfo2();
      return static_cast<double>(m.uordblks + m.hblkhd);
    };
    const double before = in_use();
    b.forward();
    b.backward();
    return in_use() - before;
  };
  // Of 30 buffers each is rounded up to a page, and has a page of its allocator's.
  constexpr double rounding = 30 * 2 * 4096;
  const auto check = [&]<class Net>(network_fixture<Net> b) {
    const auto memory = b.net.memory_of_pass(samples);
    const auto stated = static_cast<double>(memory.sum());
    const double allocated = taken(network_fixture<Net>(samples));
    CHECK(allocated <= stated + rounding);
    // The workspace may be where activations were.
    CHECK(allocated >= stated - static_cast<double>(memory.workspace) - rounding);
    CHECK(rounding < 0.05 * stated);
  };
  check(network_fixture<deep<false>>(1));
  check(network_fixture<deep<true>>(1));
  check(network_fixture<deep<true, 2>>(1));

  using detail::nn::block_memory;
  const deep<false> plain{cpu(1)};
  const deep<true> recomputed{cpu(1)};
  const auto activations = [](const auto& net, const auto&... all) {
    return net.pass_layout().of(samples, all...).activations;
  };
  // The last block of `deep` and the first are no residual ones, which alone are noted.
  const auto none = activations(recomputed, block_memory::resident),
             as_they_are = activations(plain);
  CHECK(none >= as_they_are);  // rounding: the mean over pixels is in no buffer of its own
  CHECK(none - as_they_are <= detail::nn::buffer_sizes::alignment);
  using imagenet = resnet<18, fp32, cpu, resnet_options{}, reference>;
  using recomputed_imagenet = resnet<18, fp32, cpu, resnet_options{.recompute = true}, reference>;
  CHECK(activations(imagenet{}, block_memory::recomputed) == activations(recomputed_imagenet{}));
  CHECK(activations(imagenet{}) == activations(recomputed_imagenet{}, block_memory::resident));
}
#else
TEST_CASE("recompute: a pass allocates what the network says, and says of the other choice") {
  support::skip("only glibc, without a sanitizer, counts what is allocated");
}
#endif

TEST_CASE("recompute: within another one, and a second backward pass, are refused") {
  network_fixture<deep<true>> b(2);
  b.forward();
  b.backward();
  CHECK_THROWS_AS(b.backward(), usage_error);
  using nested = network<sequential<recompute<sequential<recompute<convolution<4>>, relu>>,
                                    global_average_pool, linear<3>>,
                         fp64, cpu, reference, extent{1, 4, 4}, 3>;
  CHECK_THROWS_AS(nested{}, usage_error);
}
