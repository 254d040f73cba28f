// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model whose gradient depends on every pixel and label that it gets, and compiles fast.
#pragma once

#include <cmath>

#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

namespace support {

using namespace cordee;

template <class P>
struct labelled : quadratic<P> {
  static constexpr extent input{1, 4, 4};
  static constexpr int classes = 4;

  void forward(const typename quadratic<P>::packed_parameters& w,
               span_on<typename P::master, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    double sum = 0;
    for (std::size_t i = 0; i < b.pixels.size; ++i) sum += b.pixels[i] * static_cast<double>(i + 1);
    for (std::size_t i = 0; i < b.labels.size; ++i)
      sum += 1000.0 * b.labels[i] * static_cast<double>(i + 1);
    this->shift = std::fmod(sum, 9973.0) / 9973.0 - 0.5;
    quadratic<P>::forward(w, plane, b, p, s);
  }
};

/// 22 samples in batches of 6 that continue across epochs, of two micro-batches each.
template <class Communicator>
auto labelled_feed(const Communicator& comm) {
  return loader{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 22, .seed = 3},
                comm,
                {.global_batch = 6, .accumulate = 2, .seed = 5},
                pad_crop_flip{},
                {}};
}

/// Signs of momenta, from an epoch on.
inline constexpr auto by_signs_from = [](double epoch) {
  return [=](threads comm) { return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, epoch}; };
};

inline constexpr auto falling = [](double epoch) { return 0.05 / (1 + epoch); };

}  // namespace support
