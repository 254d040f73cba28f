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

#include "tests/support/ranks.hpp"

namespace support {

inline constexpr extent tiny_image{1, 5, 5};
inline constexpr int tiny_classes = 4;
template <class D>
using tiny = network<
    sequential<convolution<4, 3>, batch_norm<relu>, global_average_pool, linear<tiny_classes>>,
    fp32, D, reference, tiny_image, tiny_classes>;

/// Each rank's weights after some steps, each on a shard of its own.
template <class D, class O, class Make>
auto weights_after(const D& where, int ranks, const O& rule, const Make& reducer) {
  const synthetic images{.extent = tiny_image, .classes = tiny_classes, .samples = 48, .seed = 3};
  return on_ranks(ranks, [&](threads link) {
    tiny<D> net{where};
    loader feed{images, link, {.global_batch = 6, .seed = 1}};
    trainer run{net, rule, constant{.rate = 0.05}, reducer(link), {.bucket_bytes = 512}};
    CHECK(run.buckets().size() > 1);
    upload<D> there(where);
    for (int k = 0; k < 4; ++k)
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

/// An exact reducer leaves all ranks with the same bits, and those are the CPU's but for rounding.
template <class D, class Make>
void trains_alike(const D& where, const Make& reducer) {
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const sgd rule{.momentum = 0.9, .weight_decay = 1e-3};
    const auto here = weights_after(where, ranks, rule, reducer);
    const auto host = weights_after(cpu(1), ranks, rule, reducer);
    for (const auto& one : here) CHECK(one == here[0]);
    CHECK(farthest(here[0], host[0]) < 1e-5);
  }
}

/// A mixing reducer leaves every rank with weights of its own, as on the CPU.
template <class D, class Make>
void mixes_alike(const D& where, const Make& reducer) {
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const decentlam rule{.momentum = 0.8, .weight_decay = 1e-3};
    const auto here = weights_after(where, ranks, rule, reducer);
    const auto host = weights_after(cpu(1), ranks, rule, reducer);
    for (std::size_t r = 0; r < here.size(); ++r) CHECK(farthest(here[r], host[r]) < 1e-5);
    CHECK(here[0] != here[1]);
  }
}

}  // namespace support
