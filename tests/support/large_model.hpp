// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of N parameters in four segments, whose passes do nothing: for what costs memory.
#pragma once

#include <array>
#include <span>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/precision/fp32.hpp>

namespace support {

using namespace cordee;

template <std::size_t N>
struct large_model {
  using precision = fp32;
  using device = cpu;
  using packed_parameters = buffer<float, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;

  static_assert(N % 256 == 0, "segments begin at multiples of 64 numbers");
  static constexpr std::array<segment, 4> table{
      segment{"a", kind::weight, 0, N / 4}, segment{"b", kind::weight, N / 4, N / 4},
      segment{"c", kind::weight, N / 2, N / 4}, segment{"d", kind::weight, N / 4 * 3, N / 4}};

  static constexpr std::span<const segment> segments() { return table; }
  [[nodiscard]] cpu get_device() const { return cpu{1}; }
  /// Number i is i mod 2^20, which fp32 represents.
  void initialize(span_on<float, cpu> plane, std::uint64_t) const {
    for (std::size_t i = 0; i < N; ++i) plane[i] = static_cast<float>(i % (1u << 20));
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const { return {}; }
  void pack_parameters(span_on<float, cpu>, packed_parameters&, cpu::stream) const {}
  void forward(const packed_parameters&, span_on<float, cpu>, const batch<cpu>&, phase,
               cpu::stream) {}
  template <class Ready>
  void backward(const packed_parameters&, span_on<float, cpu>, write_mode, Ready&& ready,
                cpu::stream) {
    for (std::size_t k = table.size(); k-- > 0;) ready(k);
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {0, 0, 0, 1}; }
};

}  // namespace support
