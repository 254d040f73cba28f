// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input of a quantized layer on a GPU, quantized to bytes by the pass that writes it, or by a
// pass of its own, which also observes its range.
//
// The numbers are quantized by the running range. The batch's own range is known when the last
// block has merged those of all blocks: without a running range, in a network's first step, that
// block then quantizes all numbers. If one of them is not finite, the scale becomes NaN, and with
// it all that the layer computes of the bytes, whatever these are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The range of some numbers other than zero, and how many zeros there are. The range is
/// (-inf, inf) if a number is NaN or infinite.
struct range_and_zeros {
  real_range range;
  double zeros = 0;

  CORDEE_DEVICE void add(float x) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (x == 0) {
      ++zeros;
      return;
    }
    const bool finite = x * 0.0f == 0;
    range.widen({finite ? x : -infinity, finite ? x : infinity});
  }
};

/// Over the thread block, on every thread. Collective; `shared` holds two floats of each thread.
template <int Threads, class Block>
CORDEE_DEVICE range_and_zeros block_range(Block& b, float* shared, const range_and_zeros& own) {
  float *const low = shared + b.thread(), *const high = low + Threads;
  *low = own.range.low;
  *high = own.range.high;
  for (int half = Threads / 2; half > 0; half /= 2) {
    b.sync();
    if (b.thread() >= half) continue;
    real_range both{*low, *high};
    both.widen({low[half], high[half]});
    *low = both.low;
    *high = both.high;
  }
  b.sync();
  return {{shared[0], shared[Threads]}, b.sum(own.zeros)};  // barriers before the next range
}

/// What a kernel of `Threads` threads does that writes n numbers of x.
template <int Threads>
struct input_quantization {
  quantized_input to;
  std::size_t n;
  const float* x;
  range_and_zeros* ranges;  // one per block
  unsigned* arrived;        // zero

  static constexpr std::size_t shared_bytes() {
    return 2 * Threads * sizeof(float) + sizeof(affine_quantizer<float>);
  }

  /// A thread's part of it.
  struct thread_state {
    float* shared;
    affine_quantizer<float> quantizer;
    bool is_known;  // there is a running range
    range_and_zeros seen;
  };
  /// Collective.
  template <class Block>
  CORDEE_DEVICE thread_state begin(Block& b) const {
    float* const shared = b.template shared<float>(2 * Threads);
    auto* const quantizer = b.template shared<affine_quantizer<float>>(1);
    const real_range running{*to.low, *to.high};
    if (b.thread() == 0) *quantizer = fit_affine(running.low, running.high, unsigned_bytes);
    b.sync();
    return {shared, *quantizer, running.has_values(), {}};
  }
  /// Of `count` numbers from `offset` on.
  CORDEE_DEVICE void add(thread_state& state, std::size_t offset, const vec_16b<float>& numbers,
                         int count = vec_16b<float>::size) const {
    for (int k = 0; k < vec_16b<float>::size; ++k)
      if (k < count) state.seen.add(numbers.value[k]);
    if (state.is_known) store(state.quantizer, offset, numbers, count);
  }
  /// Collective, at the end of every block.
  template <class Block>
  CORDEE_DEVICE void finish(Block& b, const thread_state& state) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (state.is_known && to.frozen) {
      if (b.index() == 0 && b.thread() == 0) to.record->quantizer = state.quantizer;
      return;
    }
    const range_and_zeros of_block = block_range<Threads>(b, state.shared, state.seen);
    if (b.thread() == 0) ranges[b.index()] = of_block;
    if (!b.is_last(arrived, static_cast<unsigned>(b.blocks()))) return;
    range_and_zeros all;
    for (auto i = static_cast<std::size_t>(b.thread()); i < b.blocks(); i += Threads) {
      all.range.widen(ranges[i].range);
      all.zeros += ranges[i].zeros;
    }
    all = block_range<Threads>(b, state.shared, all);
    if (all.zeros > static_cast<double>(to.filling)) all.range.widen({0, 0});
    if (all.range.low == -infinity || all.range.high == infinity) all.range = {nan, nan};
    const auto quantizer = fit_input({*to.low, *to.high}, all.range, true);
    if (b.thread() == 0) {
      to.record->observed.widen(all.range);
      to.record->quantizer = quantizer;
    }
    if (!state.is_known) quantize_all(b.thread(), quantizer);
  }

  /// f(offset, count) for this thread's vectors of numbers `first` to `last` - 1.
  template <class F>
  CORDEE_DEVICE static void for_each_vector(int thread, std::size_t first, std::size_t last,
                                            const F& f) {
    constexpr auto size = static_cast<std::size_t>(vec_16b<float>::size);
    for (std::size_t i = first + static_cast<std::size_t>(thread) * size; i < last;
         i += Threads * size)
      f(i, static_cast<int>(std::min(last - i, size)));
  }

 private:
  CORDEE_DEVICE void quantize_all(int thread, const affine_quantizer<float>& by) const {
    for_each_vector(thread, 0, n, [&](std::size_t i, int count) {
      store(by, i, vec_16b<float>(x + i, count), count);
    });
  }
  CORDEE_DEVICE void store(const affine_quantizer<float>& by, std::size_t offset,
                           const vec_16b<float>& numbers, int count) const {
    std::uint8_t bytes[vec_16b<float>::size] = {};
    for (int k = 0; k < vec_16b<float>::size; ++k)
      bytes[k] = static_cast<std::uint8_t>(by.quantize(numbers.value[k]));
    if (count == vec_16b<float>::size) return store_unit(bytes, to.bytes + offset);
    for (int k = 0; k < vec_16b<float>::size; ++k)
      if (k < count) to.bytes[offset + static_cast<std::size_t>(k)] = bytes[k];
  }
};

/// The pass of its own.
struct quantize_input_kernel {
  static constexpr int threads = 256;
  static constexpr std::size_t chunk = 64 * threads;
  input_quantization<threads> quantization;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return input_quantization<threads>::shared_bytes();
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    auto state = quantization.begin(b);
    const std::size_t first = b.index() * chunk;
    quantization.for_each_vector(
        b.thread(), first, std::min(first + chunk, quantization.n), [&](std::size_t i, int count) {
          quantization.add(state, i, vec_16b<float>(quantization.x + i, count), count);
        });
    quantization.finish(b, state);
  }
};

/// Calls launch(quantization) with one for a kernel of so many blocks.
template <int Threads, GpuStream S, class Launch>
void with_input_quantization(const quantized_input& to, std::size_t n, const float* x,
                             std::size_t blocks, S s, const Launch& launch) {
  const device::stream_buffer<range_and_zeros, S> ranges(s, blocks);
  launch(input_quantization<Threads>{to, n, x, ranges.data(), s.counters(1)});
}

/// Training: quantizes the layer's n inputs, records their range, and fits their scaling with the
/// running range. Does nothing for n = 0.
template <GpuStream S>
void quantize_input(std::size_t n, const float* x, const quantized_input& to, S s) {
  using kernel = quantize_input_kernel;
  const std::size_t blocks = device::blocks_for(n, kernel::chunk);
  with_input_quantization<kernel::threads>(to, n, x, blocks, s, [&](const auto& quantization) {
    s.launch_kernel(blocks, kernel{quantization});
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
