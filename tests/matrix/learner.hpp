// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the first table trains: a residual network with every kind of layer and few parameters, on a
// rank's part of sixteen images.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <cordee/data/normalize.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp32.hpp>

namespace matrix {

using namespace cordee;

using residual_layers =
    sequential<convolution<4>, batch_norm<relu>,
               residual<sequential<convolution<4>, batch_norm<relu>, convolution<4>>, batch_norm<>>,
               residual<sequential<convolution<8, 3, 2>, batch_norm<relu>, convolution<8>>,
                        batch_norm<>, projection<8>>,
               global_average_pool, linear<4>>;

class small_residual_network
    : public network<residual_layers, fp32, cpu, reference, extent{1, 6, 6}, 4> {
 public:
  small_residual_network(int rank, int ranks) : network(cpu{1}), ranks_(ranks) {
    const synthetic all{.extent = input, .classes = classes, .samples = samples, .seed = 3};
    const int first = samples * rank / ranks, count = samples * (rank + 1) / ranks - first;
    pixels_.resize(static_cast<std::size_t>(count) * input.size());
    for (int i = 0; i < count; ++i)
      labels_.push_back(all.read(
          static_cast<std::size_t>(first + i),
          std::span(pixels_).subspan(static_cast<std::size_t>(i) * input.size(), input.size())));
  }

  [[nodiscard]] batch<cpu> images() const {
    return {{pixels_.data(), pixels_.size()},
            {labels_.data(), labels_.size()},
            static_cast<int>(labels_.size()),
            samples,
            ranks_,
            normalize{.mean = {.5}, .deviation = {.25}}};
  }

  // With a type-erased callback: compiled once, not for every trainer.
  void backward(const packed_parameters& in,
                cordee::detail::device::plane_part<float, cpu> gradients, write_mode mode,
                const std::function<void(std::size_t)>& ready, cpu::stream s) {
    network::backward(in, gradients, mode, ready, s);
  }
  template <class Ready>
    requires cordee::detail::nn::is_observed<Ready>
  void backward(const packed_parameters& in,
                cordee::detail::device::plane_part<float, cpu> gradients, write_mode mode,
                const Ready& ready, cpu::stream s) {
    network::backward(in, gradients, mode, ready, s);
  }

 private:
  static constexpr int samples = 16;

  int ranks_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
};

}  // namespace matrix
