// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model and samples of which all sums are exact in any order, so that a run has the same bits on
// any number of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cordee/data/loader.hpp>

#include "tests/support/quadratic.hpp"

namespace support::exact {

using namespace cordee;

inline constexpr int samples = 44, batch_size = 16, stopped_at = 4, updates = 9;
inline constexpr double until = stopped_at * 16.0 / 44,
                        whole = 3;  // epochs: 9 updates, 12 samples more

/// Labels that are the samples' numbers.
struct enumerated {
  [[nodiscard]] extent image() const { return {1, 1, 1}; }
  [[nodiscard]] int classes() const { return samples; }
  [[nodiscard]] std::size_t size() const { return samples; }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    pixels[0] = 0;
    return static_cast<int>(i);
  }
};
template <class Communicator>
auto enumerated_feed(const Communicator& comm) {
  return loader{enumerated{},
                comm,
                {.global_batch = batch_size, .accumulate = 2, .seed = 5},
                pad_crop_flip{},
                {}};
}

/// A sample's gradient is an integer, its loss too, and its weight ranks / 16: sums over samples
/// and ranks are exact in any order, and so is their division by the number of ranks.
template <class P>
struct exact_sums : quadratic<P> {
  using typename quadratic<P>::Real;
  static constexpr int classes = samples;

  std::vector<int> labels{};  // of all samples in the order of training
  std::vector<int> current{};
  double weight = 0;

  void forward(const typename quadratic<P>::packed_parameters&, span_on<Real, cpu>,
               const batch<cpu>& b, phase, cpu::stream) {
    current.assign(b.labels.begin(), b.labels.end());
    labels.insert(labels.end(), current.begin(), current.end());
    weight = b.count == 0 ? 0 : b.loss_weight();
    this->loss = 0;
    this->samples = b.count;
    for (const int label : current) this->loss += label % 7;
  }
  static int gradient(int label, std::size_t k, std::size_t i) {
    return (label * 5 + static_cast<int>(3 * k + i) * (label % 3 + 1)) % 17 - 8;
  }
  template <class Ready>
  void backward(const typename quadratic<P>::packed_parameters&, span_on<Real, cpu> grads,
                write_mode, Ready&& ready, cpu::stream) {
    for (std::size_t k = t4_center.size(); k-- > 0;) {
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        int sum = 0;
        for (const int label : current) sum += gradient(label, k, i);
        grads[t4_table[k].offset + i] += static_cast<Real>(weight * sum);
      }
      ready(k);
    }
  }
};

}  // namespace support::exact
