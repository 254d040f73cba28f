// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks that share one device, through the trainer: a network of a few hundred
// parameters, so that its kernels can be emulated.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

namespace support {

inline constexpr extent tiny_image{1, 5, 5};
inline constexpr int tiny_classes = 4;
template <class D>
using tiny = network<
    sequential<convolution<4, 3>, batch_norm<relu>, global_average_pool, linear<tiny_classes>>,
    fp32, D, reference, tiny_image, tiny_classes>;

/// With NaN and infinity written to its gradients, in stream order.
template <class D>
struct poisoned : tiny<D> {
  using tiny<D>::tiny;
  std::vector<poison> poisons;
  std::int64_t step = 0;

  template <class Ready>
  void backward(const typename tiny<D>::packed_parameters& in, span_on<float, D> grads,
                write_mode mode, Ready&& ready, typename D::stream s) {
    const auto poison_then_ready = [&](std::size_t k) {
      for (const poison& p : poisons)
        if (p.step == step && p.segment == k) {
          const auto bad = static_cast<float>(p.value);
          this->get_device().copy(grads.data + tiny<D>::segments()[k].offset, &bad, sizeof bad, s);
        }
      ready(k);
    };
    tiny<D>::backward(in, grads, mode, poison_then_ready, s);
    ++step;
  }
};

/// Emulated ranks are slow: fewer steps of many.
constexpr int steps_with(int ranks) { return ranks > 3 ? 2 : 4; }

/// Each rank's trainable weights after some steps.
template <class D, class O, class Make>
auto weights_after(const D& device, int ranks, const O& optimizer, const Make& reducer, int steps) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(ranks, [&](threads comm) {
    tiny<D> net{device};
    loader feed{images, comm, {.global_batch = 6, .seed = 1}};
    trainer run{
        net, optimizer, constant{.learning_rate = 0.05}, reducer(comm), {.bucket_bytes = 512}};
    CHECK(run.buckets().size() > 1);
    upload<D> uploaded(device);
    for (int k = 0; k < steps; ++k)
      CHECK(run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k)).finite());
    const auto trained = run.weights().subspan(0, run.weights().size - run.statistics().size);
    return copy_to_host<float, D>(device, trained, run.compute());
  });
}

inline std::vector<float> initial_weights() {
  return weights_after(
      cpu(1), 1, sgd{}, [](threads comm) { return ring{comm}; }, 0)[0];
}
/// Of the way that training made. Four steps of some ten roundings of fp32 each, on gradients that
/// are sums of a hundred terms.
inline constexpr double rounding_tolerance = 4 * 10 * 100 * 0x1p-24;

/// An exact reducer gives all ranks the same bits, which are those of a ring on the CPU but for
/// rounding.
template <class D, class Make>
void trains_alike(const D& device, const Make& reducer) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const sgd optimizer{.momentum = 0.9, .weight_decay = 1e-3};
    const auto on_device = weights_after(device, ranks, optimizer, reducer, steps_with(ranks));
    const auto host = weights_after(
        cpu(1), ranks, optimizer, [](threads comm) { return ring{comm}; }, steps_with(ranks));
    for (const auto& weights : on_device) CHECK(weights == on_device[0]);
    CHECK(way_error(on_device[0], host[0], initial_weights()) < rounding_tolerance);
  }
}

/// power_sgd gives all ranks the same bits, near the CPU's: far less away than what it leaves out,
/// which is as large as the way itself.
template <class D>
void low_rank_alike(const D& device) {
  const auto make = [](threads comm) {
    return power_sgd{ring{comm}, {.rank = 1, .min_compression_rate = 1}};
  };
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const lars optimizer{.trust_coefficient = 0.02};
    const auto on_device = weights_after(device, ranks, optimizer, make, 4);
    const auto host = weights_after(cpu(1), ranks, optimizer, make, 4);
    for (const auto& weights : on_device) CHECK(weights == on_device[0]);
    CHECK(way_error(on_device[0], host[0], initial_weights()) < 10 * rounding_tolerance);
  }
}

/// A mixing reducer leaves the ranks with different weights, which are those of the CPU.
template <class D, class Make>
void mixes_alike(const D& device, const Make& reducer) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const decentlam optimizer{.momentum = 0.8, .weight_decay = 1e-3};
    const auto on_device = weights_after(device, ranks, optimizer, reducer, steps_with(ranks));
    const auto host = weights_after(cpu(1), ranks, optimizer, reducer, steps_with(ranks));
    for (std::size_t r = 0; r < on_device.size(); ++r)
      CHECK(way_error(on_device[r], host[r], initial_weights()) < rounding_tolerance);
    if (ranks > 1) CHECK(on_device[0] != on_device[1]);
  }
}

/// Each rank's running statistics after two steps of two samples, with statistics over all ranks.
template <class D>
auto shared_statistics_after(const D& device, int ranks) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(ranks, [&](threads comm) {
    tiny<D> net{device};
    loader feed{images, comm, {.global_batch = 2, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.05}, native{comm}, {.batch_norm_over = 0}};
    upload<D> uploaded(device);
    for (int k = 0; k < 2; ++k)
      CHECK(run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k)).finite());
    return copy_to_host<float, D>(device, run.statistics(), run.compute());
  });
}

/// Ranks with and without samples have the same running statistics, those of the CPU.
template <class D>
void moves_statistics_alike(const D& device) {
  const std::vector<float> alone = shared_statistics_after(cpu(1), 1)[0];
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto of = shared_statistics_after(device, ranks);
    REQUIRE(of[0].size() == alone.size());
    for (const auto& statistics : of) CHECK(statistics == of[0]);
    for (std::size_t k = 0; k < alone.size(); ++k)
      CHECK(std::abs(of[0][k] - alone[k]) < rounding_tolerance);
  }
}

/// A run of six steps in which rank 1 has a NaN at step 1 and an infinity at step 3.
struct poisoned_outcome {
  std::vector<bool> applied;
  std::vector<int> zeroed_buckets;
  std::vector<double> norms, losses;
  std::vector<float> start, weights;
  bool unchanged = true;  // skipped steps changed no bit of weights, slot and statistics
};
template <class D, class O, class Make>
auto poisoned_run(const D& device, const O& optimizer, const Make& reducer) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(2, [&](threads comm) {
    poisoned<D> net{device};
    if (comm.rank() == 1) net.poisons = {{1, 3}, {3, 0, HUGE_VAL}};
    loader feed{images, comm, {.global_batch = 6, .seed = 1}};
    trainer run{
        net, optimizer, constant{.learning_rate = 0.05}, reducer(comm), {.bucket_bytes = 512}};
    upload<D> uploaded(device);
    const auto everything = [&] {
      auto all = copy_to_host<float, D>(device, run.weights(), run.compute());
      const auto slot = copy_to_host<float, D>(device, run.slot(0), run.compute());
      all.insert(all.end(), slot.begin(), slot.end());
      return all;
    };
    poisoned_outcome out;
    out.start = copy_to_host<float, D>(device, run.weights(), run.compute());
    for (int k = 0; k < 6; ++k) {
      const auto before = everything();
      const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
      out.applied.push_back(step.applied);
      out.zeroed_buckets.push_back(step.zeroed_buckets);
      out.norms.push_back(step.squared_global_norm);
      out.losses.push_back(step.train.mean_loss());
      if (!step.applied && O::needs == agreement::exact)
        out.unchanged = out.unchanged && everything() == before;
    }
    out.weights = copy_to_host<float, D>(device, run.weights(), run.compute());
    return out;
  });
}

/// Steps are skipped, buckets zeroed and ranks averaged as on the CPU.
template <class D, class O, class Make>
void skips_alike(const D& device, const O& optimizer, const Make& reducer) {
  const auto on_device = poisoned_run(device, optimizer, reducer),
             host = poisoned_run(cpu(1), optimizer, reducer);
  for (std::size_t r = 0; r < on_device.size(); ++r) {
    CAPTURE(r);
    CHECK(on_device[r].applied == host[r].applied);
    CHECK(on_device[r].zeroed_buckets == host[r].zeroed_buckets);
    CHECK(on_device[r].unchanged);
    for (std::size_t k = 0; k < on_device[r].norms.size(); ++k) {
      CHECK(close(on_device[r].losses[k], host[r].losses[k], 1e-5));
      CHECK((close(on_device[r].norms[k], host[r].norms[k], 1e-5) ||
             (std::isnan(host[r].norms[k]) && std::isnan(on_device[r].norms[k])) ||
             on_device[r].norms[k] == host[r].norms[k]));
    }
    CHECK(way_error(on_device[r].weights, host[r].weights, host[r].start) < rounding_tolerance);
  }
}
/// One optimizer of each kind.
template <class D>
void skip_alike(const D& device) {
  const auto make_ring = [](threads comm) { return ring{comm}; };
  skips_alike(device, velocity_sgd{.weight_decay = 1e-3}, make_ring);
  skips_alike(device, clip{lars{.trust_coefficient = 0.02}, 0.5}, make_ring);
  skips_alike(device, local_steps{velocity_sgd{}, 2}, make_ring);
  const auto make_gossip = [](threads comm) { return gossip{comm}; };
  skips_alike(device, decentlam{.momentum = 0.5}, make_gossip);
  skips_alike(device, clip{decentlam{.momentum = 0.5}, 0.5}, make_gossip);
}

}  // namespace support
