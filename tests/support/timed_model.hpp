// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model without numbers for the trainer of a simulated rank: its passes take virtual time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/simulated/step.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/phantom.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/step/step.hpp>

namespace support {

using namespace cordee;

/// Each of a multiple of 960 numbers, which 1, 2, 3, 5 and 8 ranks divide without padding.
inline constexpr std::array<segment, 5> timed_layers{
    segment{"first", kind::weight, 0, 2880}, segment{"second", kind::weight, 2880, 960},
    segment{"third", kind::weight, 3840, 4800}, segment{"fourth", kind::weight, 8640, 1920},
    segment{"last", kind::weight, 10560, 960}};

/// Every layer has a bucket of its own, since no two are as small as this together.
inline trainer_options bucket_per_layer() { return {.bucket_bytes = 960 * sizeof(float)}; }

/// With the seconds of each layer's backward.
inline step_profile timed_profile(std::vector<double> backward = {4, 1, 9, 0.5, 2}) {
  return {.forward = 3,
          .optimizer = 0.75,
          .table = {timed_layers.begin(), timed_layers.end()},
          .backward = std::move(backward)};
}

struct timed_model {
  using precision = fp32;
  using device = phantom;
  struct packed_parameters {};
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  simulated comm;
  const step_profile* seconds;
  double factor = 1;   // by which this rank is slower
  int throws_at = -1;  // the layer that has no gradient
  int sums_at = -1;    // the layer before whose gradient ranks add a number, as batch norms do

  static constexpr std::span<const segment> segments() { return timed_layers; }
  [[nodiscard]] phantom get_device() const { return comm.device(); }
  void initialize(span_on<float, phantom>, std::uint64_t) const {}
  [[nodiscard]] packed_parameters make_packed_parameters() const { return {}; }
  void pack_parameters(span_on<float, phantom>, packed_parameters&, phantom::stream) const {
    comm.compute(factor * seconds->optimizer);
  }
  void forward(const packed_parameters&, span_on<float, phantom>, const batch<phantom>&, phase,
               phantom::stream) const {
    comm.compute(factor * seconds->forward);
  }
  template <class Ready>
  void backward(const packed_parameters&, span_on<float, phantom>, write_mode, Ready&& ready,
                phantom::stream) const {
    for (std::size_t k = timed_layers.size(); k-- > 0;) {
      comm.compute(factor * seconds->backward[k]);
      if (static_cast<int>(k) == throws_at) throw error("this layer has no gradient");
      if (double sum = 1; static_cast<int>(k) == sums_at)
        allreduce_host(comm, {&sum, 1}, reduce_op::sum);
      ready(k);
    }
  }
  [[nodiscard]] metrics read_metrics(phantom::stream) const { return {0, 0, 0, 1}; }
};

/// A step of a trainer with one sample on each rank.
template <class Run>
auto take_one_step(Run& run) {
  const int ranks = run.comm().size();
  const batch<typename Run::device> b{{}, {}, 1, ranks, ranks};
  return run.step(std::span(&b, 1), 0);
}

}  // namespace support
