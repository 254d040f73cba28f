// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trainer on an emulated GPU: every kernel of a step, in each precision.
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options small{.image = {1, 8, 8}, .zero_gamma = false};
template <class P, class D>
using net_of = resnet<8, P, D, small, reference>;
const synthetic images{.extent = small.image, .classes = 10, .samples = 64, .seed = 3};

struct outcome {
  std::vector<double> losses;
  std::vector<float> start, weights;
  double loss_scale = 1;
};

/// Three updates over a ring of so many ranks; the result of rank 0.
template <class P, class D>
outcome train(int ranks, std::uint64_t order = 1) {
  const auto all = on_ranks(ranks, [&](threads comm) {
    D device = [&] {
      if constexpr (D::host_memory)
        return D(1);
      else
        return D(order);
    }();
    const std::size_t before = emulated::allocated;
    net_of<P, D> net{device};
    loader feed{images, comm, {.global_batch = 4, .seed = 1}};
    trainer run{net,
                lars{.weight_decay = 1e-4, .trust_coefficient = 0.01},
                constant{.learning_rate = 0.2},
                ring{comm},
                {.loss_scaling = {.initial = 1024}}};
    upload<D> uploaded(device);
    outcome out;
    const auto trainable_weights = [&] {
      const auto range = run.weights().subspan(0, run.weights().size - run.statistics().size);
      return copy_to_host<float, D>(device, range, run.compute());
    };
    out.start = trainable_weights();
    for (int k = 0; k < 3; ++k) {
      const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
      CHECK(step.applied);
      out.losses.push_back(step.train.mean_loss());
      out.loss_scale = step.loss_scale;
    }
    out.weights = trainable_weights();
    if constexpr (!D::host_memory)
      if (ranks == 1) {  // beside what upload holds: two batches with their labels
        constexpr std::size_t uploads = 2 * 4 * (net.input.size() + sizeof(std::int32_t));
        INFO(run.plan_memory(4).describe());
        CHECK(emulated::allocated - before == run.plan_memory(4).total() + uploads);
      }
    return out;
  });
  for (const outcome& one : all) CHECK(one.weights == all[0].weights);
  return all[0];
}

/// The difference between the weights of two devices as part of the way that training made: LARS
/// moves weights by less than a hundredth of their norm here, so a difference that is small beside
/// them may be all of it.
double apart(const outcome& a, const outcome& b) {
  CHECK(a.start == b.start);
  return way_error(a.weights, b.weights, b.start);
}

/// Roundings that a weight depends on: of five tensors in each of eight layers (weights, the
/// outputs of a convolution and its batch norm, and their gradients), in three steps.
constexpr double roundings = 5 * 8 * 3;

/// A layer of one's own may write all gradients.
struct any_writes : net_of<fp32, emulated> {
  explicit any_writes(const emulated& device) : net_of<fp32, emulated>(device) {}
  static constexpr bool skips_frozen_gradients = false;
};

}  // namespace

TEST_CASE("emulated GPU: a trainer has the CPU's weights, for any order of blocks and threads") {
  const auto host = train<fp32, cpu>(1);
  const auto device = train<fp32, emulated>(1, 1), other = train<fp32, emulated>(1, 2);
  CHECK(device.weights == other.weights);
  CHECK(apart(device, host) < roundings * 0x1p-24);
  for (std::size_t k = 0; k < host.losses.size(); ++k)
    CHECK(relatively_close(device.losses[k], host.losses[k], 1e-5));
}

TEST_CASE("emulated GPU: two ranks on one device end with equal bits, as on the CPU") {
  const auto host = train<fp32, cpu>(2), device = train<fp32, emulated>(2);
  CHECK(apart(device, host) < roundings * 0x1p-24);
}

TEST_CASE("emulated GPU: fp16 trains with master weights in fp32 and a scaled loss") {
  const auto host = train<fp32, cpu>(1), device = train<fp16, emulated>(1);
  CHECK(device.loss_scale == 1024);
  CHECK(apart(device, host) < roundings * 0x1p-11);
  for (std::size_t k = 0; k < host.losses.size(); ++k)
    CHECK(relatively_close(device.losses[k], host.losses[k], 1e-2));
}

TEST_CASE("emulated GPU: bf16 trains without a loss scale") {
  const auto host = train<fp32, cpu>(1), device = train<bf16, emulated>(1);
  CHECK(device.loss_scale == 1);
  CHECK(apart(device, host) < roundings * 0x1p-8);
}

TEST_CASE("emulated GPU: fit, evaluate, save and load work as on the CPU") {
  const std::string file = "trainer_emulated.safetensors";
  const auto loss_on = [&](auto device) {
    using D = decltype(device);
    net_of<fp32, D> net{device};
    loader feed{images, self_comm{}, {.global_batch = 8, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.01}, solo{}};
    if constexpr (D::host_memory) {
      run.load(file);
      return run.evaluate(images, {}, 5).loss;
    } else {
      const auto done = run.fit(feed, 0.25, validation{images, 7});
      run.save(file);
      return done.last.validation->loss;
    }
  };
  const double expected = loss_on(emulated(1));
  CHECK(relatively_close(loss_on(cpu(1)), expected, 1e-5));
}

TEST_CASE("emulated GPU: gradients of frozen layers at both ends take no memory") {
  const std::string freeze = "conv1, bn1, layer1, layer2, layer3.0.bn2, fc";
  std::size_t first = any_writes::plane_size(), last = 0;
  for (const segment& s : any_writes::segments().first(any_writes::tensors()))
    if (!detail::train::is_frozen(s, freeze)) {
      first = std::min(first, s.offset);
      last = s.offset + detail::core::align_up(s.size);
    }
  const std::size_t plane = any_writes::plane_size(), trained = last - first;
  const auto weights_of = [&]<class Net>(std::type_identity<Net>, std::size_t gradients) {
    const emulated device(1);
    Net net{device};
    loader feed{images, self_comm{}, {.global_batch = 2, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.01}, solo{}, {.freeze = freeze}};
    CHECK(run.arena_bytes() == (plane + gradients + trained) * sizeof(float));  // and momentum
    upload<emulated> uploaded(device);
    CHECK(run.step(uploaded.to(feed.next(), run.compute()), 0).applied);
    return copy_to_host<float, emulated>(device, run.weights(), run.compute());
  };
  CHECK(weights_of(std::type_identity<net_of<fp32, emulated>>{}, trained) ==
        weights_of(std::type_identity<any_writes>{}, plane));
}

TEST_CASE("trainer: on a GPU a step that would make running statistics infinite is skipped") {
  const auto held = on_ranks(2, [](threads comm) {
    emulated device(1);
    net_of<fp32, emulated> net{device};
    loader feed{images, comm, {.global_batch = 4, .seed = 1}};
    trainer run{net, lars{.weight_decay = 1e-4, .trust_coefficient = 0.01},
                constant{.learning_rate = 0.2}, ring{comm}};
    upload<emulated> uploaded(device);
    const auto host = [&] {
      return copy_to_host<float, emulated>(device, run.weights(), run.compute());
    };
    auto first = run.weights("conv1.weight");
    const std::vector<float> large(first.size, 1e22f);
    device.copy(first.data, large.data(), large.size() * sizeof(float), run.compute());
    run.adopt_weights();
    const auto before = host();
    const bool applied = run.step(uploaded.to(feed.next(), run.compute()), 0).applied;
    return !applied && host() == before;
  });
  CHECK((held[0] && held[1]));
}
