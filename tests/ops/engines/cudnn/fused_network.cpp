// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks with the layers of ResNet-50 by the engine cudnn that fuses batch norms, over a double
// of cuDNN: a stem with a max pool, bottlenecks with a projection and with an identity.
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/normalized_max_pool.hpp>

#include "tests/support/deferred_cuda.hpp"
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

TEST_CASE("cudnn: describe names the pools that are in one pass with a batch norm, or why not") {
  const auto described = []<class Net>(std::type_identity<Net>) {
    begin_double();
    (void)train_fused<Net>();
    return fusing_cudnn::describe();
  };
  const std::string with = "; with the max pool behind it";
  CHECK(described(std::type_identity<small_resnet<fusing_cudnn>>{})
            .ends_with(" fused by time" + with + "; with the average pool behind it"));
  CHECK(described(std::type_identity<small_resnet<fusing_cudnn, bf16>>{})
            .ends_with(" fused by time" + with + "; with the average pool behind it"));
  using by_projection = pooled<batch_norm<relu>, max_pool<3, 2>, bottleneck<8, projection<32, 1>>>;
  CHECK(described(std::type_identity<small<by_projection, fusing_cudnn>>{})
            .ends_with(with + "; plain at the average pool behind a projection's block"));
  using of_four = pooled<batch_norm<relu>, max_pool<3, 2>, convolution<16, 3, 2>, batch_norm<relu>,
                         bottleneck<4, identity>>;
  CHECK(described(std::type_identity<small<of_four, fusing_cudnn>>{})
            .ends_with(with + "; plain at an average pool of fewer than 6 or more than 64 pixels"));
  // What is stored for a plain pool has the bits of the engine that does not fuse.
  host_cudnn none;
  none.engines[0].fuses = false;
  begin_double(none);
  const fused_run by_time = train_fused<small<by_projection, fusing_cudnn>>(),
                  plain = train_fused<small<by_projection, plain_cudnn>>();
  CHECK(by_time.losses == plain.losses);
  CHECK(distance(by_time.gradients, plain.gradients) < 2e-3);
}

TEST_CASE("cudnn: a captured step with fused batch norms has the bits of an eager one") {
  const auto train = [](bool captures) {
    begin_double();
    const auto run = train_fused<small_resnet<fusing_cudnn, fp16, deferred_cuda>>(
        {.steps = 6, .capture_graphs = captures});
    return std::pair(run, host_state().executed.size());
  };
  const auto [eager, executions] = train(false);
  const auto [captured, recorded] = train(true);
  CHECK(captured.losses == eager.losses);
  CHECK(captured.weights == eager.weights);
  CHECK(captured.gradients == eager.gradients);
  CHECK(eager.fused > 0);
  CHECK(captured.fused == 0);  // the last step is replayed
  CHECK(recorded < executions);
  begin_double();
  CHECK(train_fused<small_resnet<fusing_cudnn>>({.steps = 6}).weights == eager.weights);
}

TEST_CASE("cudnn: behind a norm with frozen statistics or ghost batches the max pool is plain") {
  const auto same = [&]<class Fusing, class Plain>(std::type_identity<Fusing>,
                                                   std::type_identity<Plain>, const auto& prepare) {
    begin_double();
    const fused_run fused = train_fused<Fusing>({.steps = 2}, prepare),
                    plain = train_fused<Plain>({.steps = 2}, prepare);
    CHECK(fused.fused == 0);
    CHECK(fused.weights == plain.weights);
    CHECK(fused.gradients == plain.gradients);
  };
  same(std::type_identity<small_resnet<fusing_cudnn>>{},
       std::type_identity<small_resnet<plain_cudnn>>{},
       [](auto& net) { net.freeze_batch_norm_at = 0; });
  using ghosts = pooled<batch_norm<relu, batch_norm_options{1, 2}>, max_pool<3, 2>,
                        bottleneck<8, projection<32, 1, 2>, 2>, bottleneck<8, identity, 2>>;
  same(std::type_identity<small<ghosts, fusing_cudnn>>{},
       std::type_identity<small<ghosts, plain_cudnn>>{}, [](auto&) {});
}

TEST_CASE("cudnn: with statistics of two ranks backward of norm and max pool sums over both") {
  // Of the other x and gradients are zero: messages end with the number of values.
  const auto two_ranks = [](auto& net) {
    net.batch_norm_allreduce = cordee::detail::ops::statistics_allreduce{
        .call = [](void*, std::span<double> sums) { sums.back() *= 2; }};
  };
  double of_plain = 0, of_fused = 0;
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    begin_double();
    const fused_run_options one{.seed = seed};
    const fused_run exact = train_fused<small_resnet<plain_cudnn, fp32>>(one, two_ranks),
                    plain = train_fused<small_resnet<plain_cudnn>>(one, two_ranks),
                    fused = train_fused<small_resnet<fusing_cudnn>>(one, two_ranks);
    CHECK(fused.fused > 0);
    of_plain += distance(plain.gradients, exact.gradients);
    of_fused += distance(fused.gradients, exact.gradients);
    host_cudnn none;
    none.engines[0].fuses = false;
    begin_double(none);
    const fused_run pool = train_fused<small_resnet<fusing_cudnn>>(one, two_ranks);
    CHECK(pool.losses == plain.losses);
    CHECK(distance(pool.gradients, plain.gradients) < 2e-3);
  }
  CHECK(of_fused <= 1.5 * of_plain);
}

TEST_CASE("cudnn: blocks whose readers or writers are recomputed or offloaded") {
  using mixed =
      pooled<batch_norm<relu>, recompute<sequential<convolution<16, 3>, batch_norm<relu>>>,
             convolution<16, 3>, batch_norm<relu>, max_pool<3, 2>, bottleneck<8, projection<32, 1>>,
             recompute<bottleneck<8, identity>>, bottleneck<8, identity>,
             offload_activations<bottleneck<8, identity>>, bottleneck<8, identity>,
             bottleneck<8, identity>>;
  const fused_run_options two{.steps = 2, .accumulate = 2};
  begin_double();
  const fused_run exact = train_fused<small<mixed, plain_cudnn, fp32>>(two),
                  plain = train_fused<small<mixed, plain_cudnn>>(two),
                  fused = train_fused<small<mixed, fusing_cudnn>>(two);
  CHECK(distance(fused.gradients, exact.gradients) <=
        1.5 * distance(plain.gradients, exact.gradients));
  CHECK(distance(fused.weights, exact.weights) <= 1.5 * distance(plain.weights, exact.weights));
  CHECK(fused.fused > 0);
  CHECK(fusing_cudnn::describe().ends_with("plain in recomputed or offloaded blocks"));
}

TEST_CASE("cudnn: four channels, which are no whole vector, fused and plain") {
  static_assert(fusing_cudnn::block<half>(3) == 4 && fusing_cudnn::block<half>(4) == 4);
  static_assert(fusing_cudnn::block<half>(1) == 8 && fusing_cudnn::block<half>(5) == 8);
  static_assert(plain_cudnn::block<half>(3) == 8 && fusing_cudnn::block<float>(3) == 4);
  using narrow = pooled<batch_norm<relu>, convolution<4, 3>, batch_norm<relu>, convolution<3, 3>,
                        batch_norm<relu>, max_pool<3, 2>, convolution<4, 1>, batch_norm<relu>,
                        convolution<16, 3, 2>, batch_norm<relu>>;
  const fused_run_options two{.steps = 2, .accumulate = 2};
  begin_double();
  const fused_run exact = train_fused<small<narrow, plain_cudnn, fp32>>(two),
                  plain = train_fused<small<narrow, plain_cudnn>>(two);
  for (const bool fuses : {true, false}) {
    host_cudnn state;
    state.engines[0].fuses = fuses;
    begin_double(state);
    const fused_run fused = train_fused<small<narrow, fusing_cudnn>>(two);
    CHECK((fused.fused > 0) == fuses);
    CHECK(distance(fused.gradients, exact.gradients) <=
          1.5 * distance(plain.gradients, exact.gradients));
    CHECK(distance(fused.weights, exact.weights) <= 1.5 * distance(plain.weights, exact.weights));
  }
}

TEST_CASE("cudnn: evaluation after fused steps has the bits of the engine that does not fuse") {
  begin_double();
  const host_cuda device;
  small_resnet<fusing_cudnn> fusing{device};
  small_resnet<plain_cudnn> plain{device};
  using net_type = decltype(plain);
  const auto s = device.make_stream();
  arena<float, host_cuda> planes(device, net_type::segments(), 1);
  fusing.initialize(planes.plane(0), 5);
  const synthetic images{.extent = net_type::input, .classes = 10, .samples = 6, .seed = 3};
  loader feed{images, self_comm{}, {.global_batch = 6}};
  upload<host_cuda> uploaded(device);
  const auto batch = uploaded.to(feed.next(), s)[0];
  const auto evaluate = [&](auto& net) {
    auto packed = net.make_packed_parameters();
    net.pack_parameters(planes.plane(0), packed, s);
    net.forward(packed, planes.plane(0), batch, phase::evaluate, s);
    const auto logits = net.logits();
    return std::vector<half>(logits.data, logits.data + logits.size);
  };
  auto packed = fusing.make_packed_parameters();
  fusing.pack_parameters(planes.plane(0), packed, s);
  fusing.forward(packed, planes.plane(0), batch, phase::train, s);  // moves running statistics
  const auto found = evaluate(fusing), wanted = evaluate(plain);
  CHECK(std::memcmp(found.data(), wanted.data(), found.size() * sizeof(half)) == 0);
}
