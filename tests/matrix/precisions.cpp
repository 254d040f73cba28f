// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix's second table: each precision on each device, on a network of two convolutions. The
// GPU is emulated. There is one optimizer and reducer for each kind of exchange: these work on the
// planes of master weights, which are float in all of these precisions.
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/encode.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "cell.hpp"
#include "tests/support/emulated.hpp"

namespace matrix {

using namespace cordee;

namespace {

constexpr extent image{1, 6, 6};
using layers = sequential<convolution<4>, batch_norm<relu>, convolution<4>, batch_norm<relu>,
                          global_average_pool, linear<4>>;
const synthetic images{.extent = image, .classes = 4, .samples = 8, .seed = 3};

/// Of one rank: its loss in the first and the last step, and its weights.
struct outcome {
  double first = 0, last = 0;
  bool applied = true;
  std::vector<float> weights;
};

template <class P, class D, class O, class Make>
outcome twenty_steps(const O& optimizer, double learning_rate, const Make& make, threads comm) {
  const D device(1);
  network<layers, P, D, reference, image, 4> model{device};
  loader feed{images, comm, {.global_batch = 8, .seed = 1}};
  trainer run{model,
              optimizer,
              [learning_rate](double) { return learning_rate; },
              make(comm),
              {.loss_scaling = {.initial = 1024}}};
  upload<D> uploaded(device);
  outcome out;
  for (int k = 0; k < 20; ++k) {
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), k);
    (k == 0 ? out.first : out.last) = step.train.loss;
    out.applied = out.applied && step.applied;
  }
  const auto trained = run.weights().subspan(0, run.weights().size - run.statistics().size);
  out.weights = copy_to_host<float, D>(device, trained, run.compute());
  return out;
}

template <class P, class D, class O, class Make>
cell pair_in(const O& optimizer, double learning_rate, const Make& make) {
  try {
    std::array<outcome, 2> ranks;
    threads::launch(2, [&](threads comm) {
      ranks[static_cast<std::size_t>(comm.rank())] =
          twenty_steps<P, D>(optimizer, learning_rate, make, comm);
    });
    const auto& [a, b] = ranks;
    if (!a.applied || !b.applied) return {cell::outcome::broken, ' ', "a step was skipped"};
    const double before = a.first + b.first, after = a.last + b.last;
    if (!(after < before))
      return {cell::outcome::broken, ' ', concat("the loss went from ", before, " to ", after)};
    if (O::needs == agreement::exact && a.weights != b.weights)
      return {cell::outcome::broken, ' ', "the ranks' weights differ"};
    return {cell::outcome::runs, ' ', {}};
  } catch (const std::exception& e) {
    return {cell::outcome::broken, ' ', e.what()};
  }
}

template <class P, class D>
std::vector<cell> cells_of() {
  return {pair_in<P, D>(sgd{}, 0.1, [](threads comm) { return ring{comm}; }),
          pair_in<P, D>(lars{.trust_coefficient = 0.02}, 1.0,
                        [](threads comm) {
                          return compressed{ring{comm}, fp16{}};
                        }),
          pair_in<P, D>(decentlam{}, 0.1,
                        [](threads comm) {
                          return gossip{comm, topologies::ring{}};
                        }),
          pair_in<P, D>(local_steps{sgd{}, 8}, 0.1, [](threads comm) { return ring{comm}; }),
          pair_in<P, D>(local_steps{sgd{}, 1}, 0.1, [](threads comm) {
            return server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
          })};
}

}  // namespace

const std::vector<std::string> exchanges{"sgd, ring", "lars, compressed{ring, fp16}",
                                         "decentlam, gossip, ring", "local_steps{sgd, 8}, ring",
                                         "local_steps{sgd, 1}, server, asynchronous{1, 0}"};

std::vector<precision_row> precision_rows() {
  using support::emulated;
  return {{"fp32, cpu", cells_of<fp32, cpu>()},      {"fp16, cpu", cells_of<fp16, cpu>()},
          {"bf16, cpu", cells_of<bf16, cpu>()},      {"int8, cpu", cells_of<int8, cpu>()},
          {"fp32, gpu", cells_of<fp32, emulated>()}, {"fp16, gpu", cells_of<fp16, emulated>()},
          {"bf16, gpu", cells_of<bf16, emulated>()}, {"int8, gpu", cells_of<int8, emulated>()}};
}

}  // namespace matrix
