// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// A ring that counts the exchanges it has finished.
template <class Link>
struct counted : ring<Link> {
  std::atomic<int>* finished;

  template <class Real, class D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    ring<Link>::mix(m, now, s);
    ++*finished;
  }
};

// Backward stops before its last segment until a bucket has been exchanged, or for a while.
struct waiting : quadratic<fp32> {
  std::atomic<int>* finished = nullptr;
  int seen = 0;

  template <class Ready>
  void backward(const image& w, span_on<float, cpu> g, into i, Ready&& ready, cpu::stream s) {
    quadratic<fp32>::backward(
        w, g, i,
        [&](std::size_t k) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit);
          while (k == 0 && *finished == 0 && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
          if (k == 0) seen = *finished;
          ready(k);
        },
        s);
  }
  int limit = 0;  // milliseconds
};

template <class O>
int exchanged_during_backward(const O& rule, trainer_options options, int limit) {
  std::atomic<int> least{99};
  on_ranks(2, [&](threads link) {
    std::atomic<int> finished{0};
    waiting model;
    model.finished = &finished;
    model.limit = limit;
    trainer run{model, rule, slow_start, counted<threads>{{link}, &finished}, options};
    run.step(std::array{one_each(2)}, 0);
    if (model.seen < least) least = model.seen;
    CHECK(finished == 4);
    return 0;
  });
  return least;
}

}  // namespace

TEST_CASE("buckets are exchanged while backward goes on, unless the rule must see it whole") {
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256}, 20'000) >= 1);
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256, .overlap = false}, 50) == 0);
  CHECK(exchanged_during_backward(local{sgd{}, 1}, {.bucket_bytes = 256}, 50) == 0);
}
