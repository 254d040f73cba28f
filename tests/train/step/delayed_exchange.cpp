// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exchanges that several steps overlap, through the trainer: goldens, ranks that do not wait, and
// runs that go on while a mean is on its way (from a checkpoint: tests/checkpoint/resume.cpp).
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/delayed_exchange.hpp>

#include "tests/train/continues.hpp"
#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;

namespace {

using detail::train::delays_exchange;
static_assert(delays_exchange<overlapped<outer_momentum<local_steps<sgd>>>>() &&
              delays_exchange<clip<overlapped<outer_momentum<local_steps<sgd>>>>>() &&
              !delays_exchange<outer_momentum<local_steps<sgd>>>());

const by_ranks of_overlapped{
    {{0.331337620901, -0.131349016966, 0.323275623876, -0.238521035405, 0.162944445607,
      -0.0537734306065, 0.531483776848, -1.40330066657, -0.0228237292172}},
    {{0.174900221657, -0.276999646088, 0.121504418665, -0.466004358793, 0.00456459568444,
      -0.199817169926, 0.309198690435, -1.55695511339, -0.260763053881},
     {0.331337620901, -0.131349016966, 0.323275623876, -0.238521035405, 0.162944445607,
      -0.0537734306065, 0.531483776848, -1.40330066657, -0.0228237292172},
     {0.487775020146, 0.0143016121556, 0.525046829088, -0.0110377120164, 0.321324295529,
      0.0922703087126, 0.753768863261, -1.24964621976, 0.215115595447}},
    {{0.096681522035, -0.349824960649, 0.0206188160587, -0.579746020487, -0.0746253292767,
      -0.272839039585, 0.198056147228, -1.63378233679, -0.379732716213},
     {0.253118921279, -0.204174331527, 0.222390021271, -0.352262697099, 0.0837545206455,
      -0.126795300266, 0.420341233641, -1.48012788998, -0.141793391549},
     {0.409556320524, -0.0585237024054, 0.424161226482, -0.12477937371, 0.242134370568,
      0.0192484390531, 0.642626320054, -1.32647344317, 0.0961459331149},
     {0.565993719768, 0.0871269267166, 0.625932431694, 0.102703949678, 0.40051422049,
      0.165292178372, 0.864911406467, -1.17281899635, 0.334085257779}}};

const overlapped half_a_period_apart{
    outer_momentum{local_steps{sgd{.weight_decay = 0.01}, 6},
                   {.mixing = 0.5, .fragments = 2, .fragment_numbers = 128}},
    2};
const overlapped three_steps_late{
    outer_momentum{local_steps{sgd{.momentum = 0.9}, 4}, {.mixing = 0.25}}, 3};

/// Waits for `done`, with a deadline.
void await_other_rank(const std::atomic<bool>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the other rank waited in its step");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("overlapped: averages accepted two steps later, of two fragments, have the goldens") {
  std::vector<double> rates(10, 0.1);
  rates.resize(15, 0.05);
  reaches<fp64>(half_a_period_apart, rates, of_overlapped, over_mean);
}

TEST_CASE("overlapped: a rank goes on until the accept while another has not begun the step") {
  // Of period 4, the mean of step 3 is accepted in step 6: without overlap rank 0 waits in step 3.
  std::atomic<bool> ahead{false};
  const auto waits = on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{};
    trainer run{model, three_steps_late, constant{0.1}, ring{comm}};
    for (int k = 0; k < 8; ++k) {
      if (k == 3 && comm.rank() == 1) await_other_rank(ahead);
      run.step(std::array{one_each(2)}, k);
      if (k == 5 && comm.rank() == 0) ahead = true;
    }
    return 0;
  });
  CHECK(waits.size() == 2);
  CHECK(ahead);
}

TEST_CASE("overlapped: slots are read when the mean on its way has arrived") {
  const auto d = on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{.shift = comm.rank() - 0.5};
    trainer run{model, three_steps_late, constant{0.1}, ring{comm}};
    for (int k = 0; k < 4; ++k) run.step(std::array{one_each(2)}, k);
    return numbers(run.slot(decltype(three_steps_late)::slots - 1), 0);
  });
  CHECK(d[0] == d[1]);  // their own differ
  CHECK(d[0][0] != 0);
}

TEST_CASE("overlapped: a run goes on with equal bits while a mean is on its way") {
  for (const int ranks : {1, 2, 3})
    continues<fp32>("overlapped", three_steps_late, make_ring, {{3, 1}}, ranks);
  continues<fp32>("overlapped, compressed", three_steps_late, make_compressed, {{3, 1}});
}

TEST_CASE("overlapped: what a mean throws ends the run in the step that accepts it") {
  const std::string message = error_message([&] {
    on_ranks(2, [&](threads comm) {
      quadratic<fp64> model{};
      trainer run{model, three_steps_late, constant{0.1}, ring{comm}};
      for (int k = 0; k < 8; ++k) {
        if (k == 5 && comm.rank() == 1) throw std::runtime_error("rank 1 gives up");
        run.step(std::array{one_each(2)}, k);
      }
      return 0;
    });
  });
  CHECK(contains(message, "rank 1 gives up"));
}
