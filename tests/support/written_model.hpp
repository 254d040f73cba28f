// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of any table, on any device, whose gradients depend on the step, the sample and the place
// alone: the same bits wherever they are computed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/precision/number.hpp>

namespace support {

using namespace cordee;

/// gradient <- (gradient +) a number of up to 24 bits, rounded to N where `rounds`.
template <class Real, class N>
struct write_gradient_op {
  Real* gradient;
  std::uint32_t seed;
  Real weight;
  bool adds, rounds;
  std::size_t first = 0;  // of the tensor's numbers

  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    std::uint32_t h =
        (static_cast<std::uint32_t>(first + i) + 1) * 2654435761u ^ seed * 2246822519u;
    h = (h ^ h >> 15) * 2654435761u;
    const auto x = static_cast<Real>(static_cast<std::int32_t>(h ^ h >> 13) >> 8) *
                   static_cast<Real>(0x1p-26) * weight;
    const Real sum = adds ? gradient[i] + x : x;
    if constexpr (sizeof(N) < sizeof(Real))
      gradient[i] =
          rounds ? static_cast<Real>(detail::precision::widened(detail::precision::rounded<N>(sum)))
                 : sum;
    else
      gradient[i] = sum;
  }
};

template <class P, class D>
struct written_model {
  using precision = P;
  using device = D;
  using stream = typename D::stream;
  using Real = typename P::master;
  using number = typename detail::precision::activation_of<P>::type;
  using packed_parameters = buffer<number, D>;
  static constexpr bool skips_frozen_gradients = true;  // reads packed parameters alone

  std::span<const segment> table;
  D on;
  bool rounds = false;  // gradients of the last micro-batch
  std::int64_t poisoned_step = -1;
  bool computes = true;
  std::size_t slice = 0;      // numbers of which slices of larger weights are multiples; 0: none
  bool writes_ahead = false;  // segment 0's gradient before the others, as a residual block may
  std::int64_t step = 0, sample = 0;
  Real weight = 0;
  bool last = true;
  int micro_batches = 1, passes = 0;

  [[nodiscard]] std::span<const segment> segments() const { return table; }
  [[nodiscard]] D get_device() const { return on; }
  [[nodiscard]] std::size_t plane_size() const {
    return table.back().offset + detail::core::align_up(table.back().size);
  }
  void initialize(span_on<Real, D> plane, std::uint64_t) const {
    std::vector<Real> initial(plane_size());
    for (const segment& s : table)
      for (std::size_t i = s.offset; i < s.end(); ++i)
        initial[i] = static_cast<Real>(static_cast<double>(i % 1021) / 1021 - 0.4);
    const stream s{};
    on.copy(plane.data, initial.data(), initial.size() * sizeof(Real), s);
    on.finish(s);
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(on, plane_size());
  }
  void pack_parameters(span_on<Real, D> plane, packed_parameters& to, stream s) const {
    if (computes) convert(plane_size(), plane.data, to.span().data, s);
  }
  [[nodiscard]] const written_model& packing() const { return *this; }
  [[nodiscard]] std::size_t slice_of(std::size_t k) const {
    return table[k].kind == kind::weight && table[k].size > slice ? slice : 0;
  }
  void pack_slice(const number* numbers, const Real*, std::size_t k, std::size_t first,
                  std::size_t size, std::byte* to, stream s) const {
    const std::size_t begin = table[k].offset + first, n = std::min(size, table[k].end() - begin);
    on.copy(reinterpret_cast<number*>(to) + begin, numbers + begin, n * sizeof(number), s);
  }
  void pack_numbers(const number* numbers, const Real*, std::size_t first, std::size_t count,
                    std::byte* to, stream s) const {
    const std::size_t begin = table[first].offset, end = table[first + count - 1].end();
    on.copy(reinterpret_cast<number*>(to) + begin, numbers + begin, (end - begin) * sizeof(number),
            s);
  }
  void forward(const packed_parameters&, span_on<Real, D>, const batch<D>& b, phase, stream) {
    weight = static_cast<Real>(b.loss_weight() * b.count);
    sample = b.first_sample;
    last = ++passes % micro_batches == 0;
  }
  template <class Ready>
  void backward(const packed_parameters&, const detail::device::plane_part<Real, D>& grads,
                write_mode mode, Ready&& ready, stream s) {
    const std::size_t n = detail::core::count_trainable(table);
    if (writes_ahead) write(0, grads, mode, s);
    for (std::size_t k = n; k-- > 0;) {
      if (k > 0 || !writes_ahead) write(k, grads, mode, s);
      if (step == poisoned_step && k == 1) {
        const Real bad = std::numeric_limits<Real>::quiet_NaN();
        on.copy(place(k, grads), &bad, sizeof bad, s);
      }
      ready(k);
    }
    if (last) ++step;
  }
  [[nodiscard]] metrics read_metrics(stream) const { return {0, 0, 0, 1}; }

 private:
  Real* place(std::size_t k, const detail::device::plane_part<Real, D>& grads) const {
    return grads.places != nullptr ? grads.places->of(k) : grads.of(table[k]).data;
  }
  void write(std::size_t k, const detail::device::plane_part<Real, D>& grads, write_mode mode,
             stream s) const {
    if constexpr (requires { s.work(1.0); }) s.work(1);
    const auto write_part = [&](Real* to, std::size_t first, std::size_t size) {
      if (computes)
        for_each(
            s, size,
            write_gradient_op<Real, number>{
                to,
                static_cast<std::uint32_t>(k * 1000003 + static_cast<std::size_t>(step) * 7919 +
                                           static_cast<std::size_t>(sample) * 104729),
                weight, mode == write_mode::add, rounds && last, first});
    };
    if (grads.places != nullptr && grads.places->is_cut(k))
      grads.places->for_each_slice(k,
                                   [&](const auto& x) { write_part(x.numbers, x.first, x.size); });
    else
      write_part(place(k, grads), 0, table[k].size);
  }
};

/// Seven tensors of odd lengths, whose buckets are of several sizes.
inline constexpr std::array<segment, 8> written_table{
    segment{"first.weight", kind::weight, 0, 3},
    segment{"first.scale", kind::scale, 64, 65},
    segment{"second.weight", kind::weight, 192, 700},
    segment{"second.bias", kind::bias, 896, 1},
    segment{"third.weight", kind::weight, 960, 321},
    segment{"third.shift", kind::shift, 1344, 64},
    segment{"fourth.weight", kind::weight, 1408, 127},
    segment{"seen", kind::statistic, 1536, 1}};

}  // namespace support
