// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trainer on a GPU that is emulated: every kernel of a step in its own text, in each precision.
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr shape small{.image = {1, 8, 8}, .zero_gamma = false};
template <class P, class D>
using net_of = resnet<8, P, D, small, reference>;
const synthetic images{.extent = small.image, .classes = 10, .samples = 64, .seed = 3};

struct trained {
  std::vector<double> losses;
  std::vector<float> weights;
  double loss_scale = 1;
};

/// A few updates over a ring of so many ranks; what rank 0 has in the end.
template <class P, class D>
trained train(int ranks, std::uint64_t order = 1) {
  const auto all = on_ranks(ranks, [&](threads link) {
    D where = [&] {
      if constexpr (D::host_memory)
        return D(1);
      else
        return D(order);
    }();
    net_of<P, D> net{where};
    loader feed{images, link, {.global_batch = 4, .seed = 1}};
    trainer run{net,
                lars{.weight_decay = 1e-4, .trust = 0.01},
                constant{.rate = 0.2},
                ring{link},
                {.loss_scaling = {.initial = 1024}}};
    upload<D> there(where);
    trained out;
    for (int k = 0; k < 3; ++k) {
      const auto step = run.step(there.to(feed.next(), run.compute()), feed.epoch(k));
      CHECK(step.applied);
      out.losses.push_back(step.train.mean_loss());
      out.loss_scale = step.loss_scale;
    }
    const auto trained = run.weights().subspan(0, run.weights().size - run.statistics().size);
    out.weights = on_host<float, D>(where, trained, run.compute());
    return out;
  });
  for (const auto& one : all) CHECK(one.weights == all[0].weights);
  return all[0];
}

/// |a - b| / |b|
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, whole = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    whole += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / whole);
}

}  // namespace

TEST_CASE("a trainer on a GPU's grids is the CPU's, whatever the order of blocks and threads") {
  const auto host = train<fp32, cpu>(1);
  const auto grid = train<fp32, emulated>(1, 1), other = train<fp32, emulated>(1, 2);
  CHECK(grid.weights == other.weights);
  CHECK(apart(grid.weights, host.weights) < 1e-5);
  for (std::size_t k = 0; k < host.losses.size(); ++k)
    CHECK(grid.losses[k] == doctest::Approx(host.losses[k]).epsilon(1e-5));
}

TEST_CASE("two ranks on one GPU exchange there, and leave with the same bits") {
  const auto host = train<fp32, cpu>(2), grid = train<fp32, emulated>(2);
  CHECK(apart(grid.weights, host.weights) < 1e-5);
}

TEST_CASE("half precision trains with masters in float and a scaled loss") {
  const auto host = train<fp32, cpu>(1), grid = train<fp16, emulated>(1);
  CHECK(grid.loss_scale == 1024);
  CHECK(apart(grid.weights, host.weights) < 3e-3);  // some units of 2^-11
  for (std::size_t k = 0; k < host.losses.size(); ++k)
    CHECK(grid.losses[k] == doctest::Approx(host.losses[k]).epsilon(1e-2));
}

TEST_CASE("bfloat16 trains without a scale") {
  const auto host = train<fp32, cpu>(1), grid = train<bf16, emulated>(1);
  CHECK(grid.loss_scale == 1);
  CHECK(apart(grid.weights, host.weights) < 2e-2);  // some units of 2^-8
}

TEST_CASE("fit, evaluation and files work on a GPU as on the CPU") {
  const std::string file = "trainer_on_a_grid.safetensors";
  const auto accuracy = [&](auto device) {
    using D = decltype(device);
    net_of<fp32, D> net{device};
    loader feed{images, alone{}, {.global_batch = 8, .seed = 1}};
    trainer run{net, sgd{}, constant{.rate = 0.01}, solo{}};
    if constexpr (D::host_memory) {
      run.load(file);
      return run.evaluate(images, {}, 5).loss;
    } else {
      const auto done = run.fit(feed, 0.25, held_out{images, 7});
      run.save(file);
      return done.last.held_out->loss;
    }
  };
  const double grid = accuracy(emulated(1));
  CHECK(accuracy(cpu(1)) == doctest::Approx(grid).epsilon(1e-5));
}
