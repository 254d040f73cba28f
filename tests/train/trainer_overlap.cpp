// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// A ring that counts the exchanges it has finished.
template <class Communicator>
struct counted : ring<Communicator> {
  std::atomic<int>* finished;

  template <class Real, class D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    ring<Communicator>::mix(m, info, s);
    ++*finished;
  }
};

// Backward waits before its last segment until a bucket has been exchanged, for `limit` at most.
struct waiting_model : quadratic<fp32> {
  std::atomic<int>* finished = nullptr;
  int exchanged = 0;

  template <class Ready>
  void backward(const packed_parameters& w, span_on<float, cpu> g, write_mode i, Ready&& ready,
                cpu::stream s) {
    quadratic<fp32>::backward(
        w, g, i,
        [&](std::size_t k) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit);
          while (k == 0 && *finished == 0 && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
          if (k == 0) exchanged = *finished;
          ready(k);
        },
        s);
  }
  int limit = 0;  // milliseconds
};

template <class O>
int exchanged_during_backward(const O& optimizer, trainer_options options, int limit) {
  std::atomic<int> least{99};
  on_ranks(2, [&](threads comm) {
    std::atomic<int> finished{0};
    waiting_model model;
    model.finished = &finished;
    model.limit = limit;
    trainer run{model, optimizer, slow_start, counted<threads>{{comm}, &finished}, options};
    run.step(std::array{one_each(2)}, 0);
    if (model.exchanged < least) least = model.exchanged;
    CHECK(finished == 4);
    return 0;
  });
  return least;
}

}  // namespace

TEST_CASE("buckets are exchanged during backward, unless the optimizer is not eager") {
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256}, 20'000) >= 1);
  CHECK(exchanged_during_backward(sgd{}, {.bucket_bytes = 256, .overlap = false}, 50) == 0);
  CHECK(exchanged_during_backward(local_steps{sgd{}, 1}, {.bucket_bytes = 256}, 50) == 0);
}
