// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of engine tensor_core by themselves, in a given tile and with given prologue and
// epilogue, on numbers whose sums are exact in float.
#pragma once

#include <vector>

#include <cordee/ops/engines/tensor_core/engine.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/engines.hpp"

namespace support {

/// Scale and bias of every padded channel. Padded channels are changed too, and have zero weights;
/// a positive bias shows where the zeros around an image are taken for pixels.
struct affine_channels {
  std::vector<float> scale{1, -1, 2, 0.5, 1, 3, 3, 3}, bias{1, 0.5, -1, 2, 0, 7, 7, 7};

  [[nodiscard]] std::vector<double> of(std::vector<double> x, const extent& e) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / e.pixels() % size(e.channels);
      x[i] = std::max(0.0, scale[c] * x[i] + bias[c]);
    }
    return x;
  }
};

template <Number N = half, class Tile = detail::ops::tensor_core_tile<32, 4>>
struct tiled_fixture {
  using number = N;
  using tile = Tile;
  convolution_problem p{{5, 6, 5}, 12, 3, 1, 1};
  int samples = 7;  // more pixels than in a tile
  device_fixture<emulated> at{emulated{1}};
  std::vector<double> x = short_numbers<N>(size(samples) * p.in.size(), 1),
                      w = short_numbers<N>(p.weights(), 2);

  [[nodiscard]] std::vector<N> in_memory(const std::vector<double>& v, const extent& e) const {
    const auto blocks = nchw_to_blocked<double>(v, e, samples, tensor_core::block<N>(e.channels));
    std::vector<N> out;
    out.reserve(blocks.size());  // no more: AddressSanitizer then sees reads beyond the end
    for (const double value : blocks) out.push_back(nearest<N>(value));
    return out;
  }
  [[nodiscard]] std::vector<N> packed() const {
    std::vector<N> weights(tensor_core::packed_size<N>(p));
    const std::vector<float> master(w.begin(), w.end());
    tensor_core::pack<N>(p, master.data(), weights.data(), at.s);
    return weights;
  }
  /// y of these x by the definition, not rounded.
  [[nodiscard]] std::vector<double> exact_output(const std::vector<double>& x) const {
    std::vector<double> y(size(samples) * p.out().size());
    for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      y[iy] += w[iw] * x[ix];
    });
    return y;
  }
  template <class Prologue, class Epilogue>
  void fprop(const Prologue& prologue, const Epilogue& epilogue) const {
    const auto in = in_memory(x, p.in), weights = packed();
    const detail::ops::correlation_kernel<N, Tile, Prologue, Epilogue> kernel{
        detail::ops::fprop_gemm<N>(p, samples), in.data(), weights.data(), prologue, epilogue};
    at.s.launch_kernel(kernel.blocks(), kernel);
  }
  /// A buffer for y; and y in NCHW.
  [[nodiscard]] std::vector<N> output() const {
    return std::vector<N>(
        size(samples) * cordee::detail::ops::sample_size(p.out(), tensor_core::block<N>(p.filters)),
        nearest<N>(99));
  }
  [[nodiscard]] std::vector<double> numbers(const std::vector<N>& y) const {
    std::vector<double> out;
    for (const N value : y) out.push_back(value.exact());
    CHECK(padding_magnitude(out, p.out(), samples, tensor_core::block<N>(p.filters)) == 0);
    return plain(out, p.out(), samples, tensor_core::block<N>(p.filters));
  }
};

}  // namespace support
