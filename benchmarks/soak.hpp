// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The training of the soak: a small ResNet whose ranks have slots of their own (error feedback) and
// statistics of their own, saved every few steps, resumed from the folder's newest checkpoint.
// benchmarks/soak.py kills it and compares the line that its last rank to finish leads to:
//
//   finished after 4000 steps: planes of 4 ranks XXH3_0f62f7a9e5c1b8d4
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include <xxhash.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/measure/evaluate.hpp>
#include <cordee/train/trainer.hpp>

#include "examples/options.hpp"
#include "tests/support/small_network.hpp"

namespace soak {

using namespace cordee;

struct plan {
  std::string folder;
  int steps, every;
};

inline plan read_plan(examples::options& o) {
  plan p;
  p.folder = o.string("folder", "soak", "of the checkpoints");
  p.steps = o.whole("steps", 4000, "updates of the whole run");
  p.every = o.whole("every", 20, "updates between two checkpoints");
  return p;
}

/// XXH3 of what a checkpoint holds of this rank's planes.
template <class Run>
std::uint64_t digest(Run& run) {
  std::vector<float> numbers;
  for (const auto& p : detail::checkpoints::saved_planes(run))
    for (const segment& s : p.segments) {
      const auto held = p.plane.of(s.offset, s.size);  // nothing is frozen
      numbers.insert(numbers.end(), held.begin(), held.end());
    }
  return XXH3_64bits(numbers.data(), numbers.size() * sizeof(float));
}

template <class Communicator>
void train(const Communicator& comm, const plan& p) {
  using namespace support;
  resnet<8, fp32, cpu, small> net;
  loader feed{data, comm, {.global_batch = 24, .seed = 5}, pad_crop_flip{.pad = 2, .flip = true}};
  trainer run{net, sgd{.momentum = 0.9}, constant{.learning_rate = 0.01},
              compressed{ring{comm}, int8{}}};
  run.resume(p.folder);
  const double epochs = static_cast<double>(p.steps) * 24 / static_cast<double>(data.samples);
  const run_summary done =
      run.fit(feed, epochs, checkpoint{.folder = p.folder, .every = {.steps = p.every}, .keep = 2});
  if (done.stopped) return;
  const std::uint64_t own = digest(run);
  const std::array halves{static_cast<double>(own >> 32), static_cast<double>(own & 0xffffffffu)};
  const std::vector<double> all = detail::comm::gather_host(comm, halves);
  if (comm.rank() != 0) return;
  std::printf("finished after %lld steps: planes of %d ranks XXH3_%016llx\n",
              static_cast<long long>(run.steps_taken()), comm.size(),
              static_cast<unsigned long long>(XXH3_64bits(all.data(), all.size() * 8)));
  std::fflush(stdout);
}

}  // namespace soak
