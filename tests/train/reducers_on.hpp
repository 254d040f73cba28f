// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every reducer between ranks that share one device, through the trainer: a network of a few
// hundred numbers, so that its kernels may be emulated.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

namespace support {

inline constexpr extent tiny_image{1, 5, 5};
inline constexpr int tiny_classes = 4;
template <class D>
using tiny = network<
    sequential<convolution<4, 3>, batch_norm<relu>, global_average_pool, linear<tiny_classes>>,
    fp32, D, reference, tiny_image, tiny_classes>;

/// With gradients that are not finite, planted in stream order.
template <class D>
struct poisoned : tiny<D> {
  using tiny<D>::tiny;
  std::vector<poison> poisons;
  std::int64_t step = 0;

  template <class Ready>
  void backward(const typename tiny<D>::image& in, span_on<float, D> grads, into mode,
                Ready&& ready, typename D::stream s) {
    const auto planted = [&](std::size_t k) {
      for (const poison& p : poisons)
        if (p.step == step && p.segment == k) {
          const auto bad = static_cast<float>(p.value);
          this->where().copy(grads.data + tiny<D>::segments()[k].offset, &bad, sizeof bad, s);
        }
      ready(k);
    };
    tiny<D>::backward(in, grads, mode, planted, s);
    ++step;
  }
};

/// Each rank's weights after some steps, each on a shard of its own; fewer of many ranks, whose
/// fibers take their time.
template <class D, class O, class Make>
auto weights_after(const D& where, int ranks, const O& rule, const Make& reducer) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(ranks, [&](threads link) {
    tiny<D> net{where};
    loader feed{images, link, {.global_batch = 6, .seed = 1}};
    trainer run{net, rule, constant{.rate = 0.05}, reducer(link), {.bucket_bytes = 512}};
    CHECK(run.buckets().size() > 1);
    upload<D> there(where);
    for (int k = 0; k < (ranks > 3 ? 2 : 4); ++k)
      CHECK(run.step(there.to(feed.next(), run.compute()), feed.epoch(k)).finite());
    const auto trained = run.weights().subspan(0, run.weights().size - run.statistics().size);
    return on_host<float, D>(where, trained, run.compute());
  });
}

/// The largest |a - b|, and HUGE_VAL where one is no number.
inline double farthest(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = std::isfinite(off) ? std::max(most, off) : HUGE_VAL;
  }
  return a.size() == b.size() ? most : HUGE_VAL;
}

/// An exact reducer leaves all ranks with the same bits, and those are the CPU's but for rounding
/// (there by a ring: every exact mean is one).
template <class D, class Make>
void trains_alike(const D& where, const Make& reducer) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const sgd rule{.momentum = 0.9, .weight_decay = 1e-3};
    const auto here = weights_after(where, ranks, rule, reducer);
    const auto host = weights_after(cpu(1), ranks, rule, [](threads l) { return ring{l}; });
    for (const auto& one : here) CHECK(one == here[0]);
    CHECK(farthest(here[0], host[0]) < 1e-5);
  }
}

/// A mixing reducer leaves every rank with weights of its own, as on the CPU.
template <class D, class Make>
void mixes_alike(const D& where, const Make& reducer) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const decentlam rule{.momentum = 0.8, .weight_decay = 1e-3};
    const auto here = weights_after(where, ranks, rule, reducer);
    const auto host = weights_after(cpu(1), ranks, rule, reducer);
    for (std::size_t r = 0; r < here.size(); ++r) CHECK(farthest(here[r], host[r]) < 1e-5);
    if (ranks > 1) CHECK(here[0] != here[1]);
  }
}

/// What a run through steps that are not finite left: rank 1 meets a NaN at step 1 and an infinity
/// at step 3, of six.
struct bumpy {
  std::vector<bool> applied;
  std::vector<int> zeroed;
  std::vector<double> norms, losses;
  std::vector<float> weights;
  bool kept = true;  // a step that was skipped left every bit of weights, slot and statistics
};
template <class D, class O, class Make>
auto bumpy_run(const D& where, const O& rule, const Make& reducer) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(2, [&](threads link) {
    poisoned<D> net{where};
    if (link.rank() == 1) net.poisons = {{1, 3}, {3, 0, HUGE_VAL}};
    loader feed{images, link, {.global_batch = 6, .seed = 1}};
    trainer run{net, rule, constant{.rate = 0.05}, reducer(link), {.bucket_bytes = 512}};
    upload<D> there(where);
    const auto everything = [&] {
      auto all = on_host<float, D>(where, run.weights(), run.compute());
      const auto slot = on_host<float, D>(where, run.slot(0), run.compute());
      all.insert(all.end(), slot.begin(), slot.end());
      return all;
    };
    bumpy out;
    for (int k = 0; k < 6; ++k) {
      const auto before = everything();
      const auto step = run.step(there.to(feed.next(), run.compute()), feed.epoch(k));
      out.applied.push_back(step.applied);
      out.zeroed.push_back(step.zeroed);
      out.norms.push_back(step.grad_square);
      out.losses.push_back(step.train.mean_loss());
      if (!step.applied && O::needs == agreement::exact)
        out.kept = out.kept && everything() == before;
    }
    out.weights = on_host<float, D>(where, run.weights(), run.compute());
    return out;
  });
}

/// Steps are skipped, buckets zeroed, and ranks meet, as on the CPU.
template <class D, class O, class Make>
void skips_alike(const D& where, const O& rule, const Make& reducer) {
  const auto here = bumpy_run(where, rule, reducer), host = bumpy_run(cpu(1), rule, reducer);
  for (std::size_t r = 0; r < here.size(); ++r) {
    CAPTURE(r);
    CHECK(here[r].applied == host[r].applied);
    CHECK(here[r].zeroed == host[r].zeroed);
    CHECK(here[r].kept);
    for (std::size_t k = 0; k < here[r].norms.size(); ++k) {
      CHECK(close(here[r].losses[k], host[r].losses[k], 1e-5));
      CHECK((close(here[r].norms[k], host[r].norms[k], 1e-5) ||
             (std::isnan(host[r].norms[k]) && std::isnan(here[r].norms[k])) ||
             here[r].norms[k] == host[r].norms[k]));
    }
    CHECK(farthest(here[r].weights, host[r].weights) < 1e-5);
  }
}
/// Of each kind of rule one.
template <class D>
void skip_alike(const D& where) {
  const auto rings = [](threads link) { return ring{link}; };
  skips_alike(where, velocity_sgd{.weight_decay = 1e-3}, rings);
  skips_alike(where, clip{lars{.trust = 0.02}, 0.5}, rings);
  skips_alike(where, local{velocity_sgd{}, 2}, rings);
  const auto neighbours = [](threads link) { return gossip{link}; };
  skips_alike(where, decentlam{.momentum = 0.5}, neighbours);
  skips_alike(where, clip{decentlam{.momentum = 0.5}, 0.5}, neighbours);
}

}  // namespace support
