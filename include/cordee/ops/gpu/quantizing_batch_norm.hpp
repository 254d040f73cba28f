// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norms between quantized layers on a GPU: a pass that writes the input of one also quantizes
// it (quantized_input.hpp); the pass that writes dy writes both operands of the layer's gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/error.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/quantized_input.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class Epilogue, class Real>
struct normalize_quantizing_kernel {
  static constexpr int size = vec_16b<float>::size, threads = batch_norm_tiles::threads;
  static constexpr int resident_blocks = 4;  // at most 64 registers
  using normalize = normalize_kernel<Epilogue, float, size, Real>;
  normalize pass;
  input_quantization<threads> quantization;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return input_quantization<threads>::shared_bytes();
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    auto state = quantization.begin(b);
    pass.template for_each_vector<normalize::depth>(
        b, [&](std::size_t offset, const vec_16b<float, size>& y) {
          y.store(pass.t.y + offset);
          quantization.add(state, offset, y);
        });
    quantization.finish(b, state);
  }
};

/// batch_norm_normalize, which also quantizes y.
template <int V, class Epilogue, class Real, GpuStream S>
double batch_norm_normalize_quantizing(const batch_norm_problem& at, int samples,
                                       const batch_norm_tensors<float, Real>& t,
                                       const float* residual, const quantized_input& to, S s) {
  using kernel = normalize_quantizing_kernel<Epilogue, Real>;
  static_assert(V % kernel::size == 0, "activations of a quantized network are whole vectors");
  if (samples == 0) return 0;
  expect_vec_aligned<kernel::size>(t.x, t.y, residual);
  const batch_norm_tiles tiling(at, samples, V, kernel::size);
  const std::size_t n = tiling.samples * tiling.in.size();
  with_input_quantization<kernel::threads>(
      to, n, t.y, tiling.blocks(), s, [&](const auto& quantization) {
        s.launch_kernel(tiling.blocks(), kernel{{tiling, t, residual}, quantization});
      });
  return static_cast<double>(tiling.rows_of(tiling.groups - 1));
}

/// The blocks of dx, in bf16, then those of the layer's dequantized input.
template <class Epilogue, class Real>
struct gradient_operands_kernel {
  static constexpr int size = vec_16b<float>::size;
  using dx_kernel = input_gradient_kernel<Epilogue, float, size, Real, bfloat>;
  static constexpr int threads = dx_kernel::threads, resident_blocks = dx_kernel::resident_blocks;
  static constexpr bool independent = true;
  static constexpr std::size_t chunk = 16 * size * threads;
  dx_kernel dx;
  std::size_t dx_blocks;
  dequantized_input<bfloat> input;

  [[nodiscard]] std::size_t blocks() const {
    return dx_blocks + device::blocks_for(input.n, chunk);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (b.index() < dx_blocks) return dx(b);
    const std::size_t first = (b.index() - dx_blocks) * chunk,
                      last = std::min(first + chunk, input.n);
    for (std::size_t i = first + static_cast<std::size_t>(b.thread() * size); i < last;
         i += std::size_t{threads} * size) {
      const vec_16b<float, size> x(input.x + i);
      vec_16b<bfloat, size> out;
      for (int k = 0; k < size; ++k) out.value[k] = input.quantizer->fake_quantize(x.value[k]);
      out.store(input.out + i);
    }
  }
};

/// batch_norm_backward with dx in bf16, which is not dy; also dequantizes the input of the layer
/// before it.
template <int V, class Epilogue, class Real, GpuStream S>
void batch_norm_backward_quantized(const batch_norm_problem& at, int samples,
                                   const batch_norm_tensors<float, Real>& t, double count,
                                   float* dy, bfloat* dx, const dequantized_input<bfloat>& input,
                                   Real* dgamma, Real* dbeta, write_mode mode,
                                   const statistics_allreduce& combine, S s) {
  constexpr int size = vec_16b<float>::size;
  static_assert(V % size == 0, "activations of a quantized network are whole vectors");
  expect_vec_aligned<size>(dx, input.out, input.x);
  expects(input.n % size == 0, "activations of a quantized network are whole vectors");
  differentiate_batch<size, Epilogue>(at, V, samples, t, count, dy, dgamma, dbeta, mode, combine, s,
                                      [&]<class Rest>(const batch_norm_tiles& tiling, Rest) {
                                        const gradient_operands_kernel<Rest, Real> kernel{
                                            {tiling, t, dy, dx}, tiling.blocks(), input};
                                        s.launch_kernel(kernel.blocks(), kernel);
                                      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
