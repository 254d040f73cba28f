// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix's second table: each precision on each device, on a network of two convolutions. The
// GPU is emulated. Of rules and reducers there is one pair for each kind of exchange: they see
// planes of masters, which are float in all of these.
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/encode.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/histogram.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/quantise.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>

#include "cell.hpp"
#include "tests/support/emulated.hpp"

namespace matrix {

using namespace cordee;

namespace {

constexpr extent picture{1, 6, 6};
using layers = sequential<convolution<4>, batch_norm<relu>, convolution<4>, batch_norm<relu>,
                          global_average_pool, linear<4>>;
const synthetic images{.extent = picture, .classes = 4, .samples = 8, .seed = 3};

/// What two ranks left: the loss over all images in the first and the last step, and weights.
struct left_by {
  double first = 0, last = 0;
  bool applied = true;
  std::vector<float> weights;
};

template <class P, class D, class O, class Make>
left_by twenty_steps(const O& rule, double rate, const Make& make, threads link) {
  const D where(1);
  network<layers, P, D, reference, picture, 4> model{where};
  loader feed{images, link, {.global_batch = 8, .seed = 1}};
  trainer run{model,
              rule,
              [rate](double) { return rate; },
              make(link),
              {.loss_scaling = {.initial = 1024}}};
  upload<D> there(where);
  left_by out;
  for (int k = 0; k < 20; ++k) {
    const auto step = run.step(there.to(feed.next(), run.compute()), k);
    (k == 0 ? out.first : out.last) = step.train.loss;
    out.applied = out.applied && step.applied;
  }
  const auto trained = run.weights().subspan(0, run.weights().size - run.statistics().size);
  out.weights = on_host<float, D>(where, trained, run.compute());
  return out;
}

template <class P, class D, class O, class Make>
cell pair_in(const O& rule, double rate, const Make& make) {
  if constexpr (D::host_memory &&
                !std::same_as<typename activation_of<P>::type, typename P::master>) {
    return {cell::outcome::not_compiled, 'd', {}};
  } else {
    try {
      std::array<left_by, 2> ranks;
      threads::launch(2, [&](threads link) {
        ranks[static_cast<std::size_t>(link.rank())] = twenty_steps<P, D>(rule, rate, make, link);
      });
      const auto& [a, b] = ranks;
      if (!a.applied || !b.applied) return {cell::outcome::broken, ' ', "a step was skipped"};
      const double before = a.first + b.first, after = a.last + b.last;
      if (!(after < before))
        return {cell::outcome::broken, ' ', text("the loss went from ", before, " to ", after)};
      if (O::needs == agreement::exact && a.weights != b.weights)
        return {cell::outcome::broken, ' ', "the ranks have other bits"};
      return {cell::outcome::runs, ' ', {}};
    } catch (const std::exception& e) {
      return {cell::outcome::broken, ' ', e.what()};
    }
  }
}

template <class P, class D>
std::vector<cell> cells_of() {
  return {pair_in<P, D>(sgd{}, 0.1, [](threads l) { return ring{l}; }),
          pair_in<P, D>(lars{.trust = 0.02}, 1.0,
                        [](threads l) {
                          return narrow{ring{l}, fp16{}};
                        }),
          pair_in<P, D>(decentlam{}, 0.1,
                        [](threads l) {
                          return gossip{l, cycle{}};
                        }),
          pair_in<P, D>(local{sgd{}, 8}, 0.1, [](threads l) { return ring{l}; }),
          pair_in<P, D>(local{sgd{}, 1}, 0.1, [](threads l) {
            return server{l, asynchronous{.softsync = 1, .bound = 1}};
          })};
}

}  // namespace

const std::vector<std::string> exchanges{"sgd, ring", "lars, narrow{ring, fp16}",
                                         "decentlam, gossip, cycle", "local{sgd, 8}, ring",
                                         "local{sgd, 1}, server, asynchronous{1, 1}"};

std::vector<precision_row> precision_rows() {
  using support::emulated;
  return {{"fp32, cpu", cells_of<fp32, cpu>()},      {"fp16, cpu", cells_of<fp16, cpu>()},
          {"bf16, cpu", cells_of<bf16, cpu>()},      {"int8, cpu", cells_of<int8, cpu>()},
          {"fp32, gpu", cells_of<fp32, emulated>()}, {"fp16, gpu", cells_of<fp16, emulated>()},
          {"bf16, gpu", cells_of<bf16, emulated>()}, {"int8, gpu", cells_of<int8, emulated>()}};
}

}  // namespace matrix
