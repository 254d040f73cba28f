// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model without numbers for the trainer of a simulated rank: its passes take virtual time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/comm/simulated.hpp>
#include <cordee/comm/simulated/step.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/phantom.hpp>
#include <cordee/precision/fp32.hpp>

namespace support {

using namespace cordee;

/// A tensor of so many times 960 numbers for each of `Blocks`, which 1, 2, 3, 5 and 8 ranks divide into equal
/// parts without padding.
template <int... Blocks>
constexpr auto tensors_of_960() {
  std::array<segment, sizeof...(Blocks)> table{segment{"tensor", kind::weight, 0, 960 * Blocks}...};
  for (std::size_t k = 1; k < table.size(); ++k) table[k].offset = table[k - 1].end();
  return table;
}

/// `Table`, a std::array of segments, has static storage.
template <const auto& Table>
struct timed_model {
  using precision = fp32;
  using device = phantom;
  struct packed_parameters {};
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  simulated comm;
  const step_profile* seconds;
  double factor = 1;   // by which this rank is slower
  int throws_at = -1;  // the tensor whose gradient fails

  static constexpr std::span<const segment> segments() { return Table; }
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
    for (std::size_t k = Table.size(); k-- > 0;) {
      comm.compute(factor * seconds->backward[k]);
      if (static_cast<int>(k) == throws_at) throw error("this layer has no gradient");
      ready(k);
    }
  }
  [[nodiscard]] metrics read_metrics(phantom::stream) const { return {0, 0, 0, 1}; }
};

}  // namespace support
