// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A quantized convolution without a network; activations are plain NCHW.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/engines.hpp"

namespace support {

template <class Engine, class L, extent In>
struct int8_fixture {
  using layer_backend = cordee::detail::nn::backend<int8, cpu, Engine>;
  using table = cordee::detail::nn::parameter_table<L, In, true>;
  static constexpr convolution_problem p = L::problem(In);

  int samples;
  layout_builder layout{table::segments, 0, 1, 0};
  detail::nn::node_of<L, layer_backend, In> layer = L::template bind<layer_backend, In>(layout);
  cordee::arena<float, cpu> memory{cpu(1), table::segments, 2};
  detail::nn::activations<cpu> saved{cpu(1), layout.activations};
  detail::nn::activations<cpu> pool{cpu(1), 0};
  detail::nn::gradient_buffers<float, cpu> buffers{pool, 0};
  buffer<std::byte, cpu> packed{cpu(1), layout.packed_size};
  buffer<double, cpu> scratch{cpu(1), 0};
  buffer<float, cpu> workspace{cpu(1), 0};
  detail::nn::quantization_options quantization;
  cordee::detail::nn::quantization_observer& observer = quantization.observer;
  int in_block = layer_backend::block(In.channels), out_block = layer_backend::block(p.filters);
  std::vector<float> x;

  explicit int8_fixture(int n) : samples(n) {
    static_assert(table::segments.size() == 3);
    observer.add_layers(table::segments);
    CHECK(observer.layers.size() == layout.quantized_layers);
    reset_range();
    weights(random_numbers(p.weights(), 2));
    input(random_numbers(size(n) * In.size(), 1));
  }
  float& low() { return memory.plane(0).data[table::segments[1].offset]; }
  float& high() { return memory.plane(0).data[table::segments[2].offset]; }
  void reset_range() {
    low() = static_cast<float>(table::initializers[1].mean);
    high() = static_cast<float>(table::initializers[2].mean);
  }
  void input(const std::vector<double>& numbers) {
    x = nchw_to_blocked<float>(numbers, In, samples, in_block);
  }
  void weights(const std::vector<double>& w) {
    for (std::size_t i = 0; i < w.size(); ++i) memory.plane(0).data[i] = static_cast<float>(w[i]);
    const cpu device(1);
    layer.pack_parameters(
        pack_pass<layer_backend>{memory.plane(0).data, packed.span().data, device, {}});
  }
  std::vector<double> forward(phase mode = phase::train) {
    forward_pass<layer_backend> pass{
        packed.span().data, memory.plane(0).data, samples, mode, {}, &saved, &scratch, {}};
    pass.quantization = &quantization;
    const float* y = layer.forward(pass, x.data());
    return plain(std::vector<float>(
                     y, y + size(samples) * cordee::detail::ops::sample_size(p.out(), out_block)),
                 p.out(), samples, out_block);
  }
  /// dx; dw is in plane 1.
  std::vector<double> backward(const std::vector<double>& dy, std::vector<double> before = {}) {
    pool.begin_backward(nullptr, 0);
    buffers = {pool, size(samples) * layout.largest_activation};
    float* const dy_buffer = buffers.acquire();
    const auto blocks = nchw_to_blocked<float>(dy, p.out(), samples, out_block);
    std::copy(blocks.begin(), blocks.end(), dy_buffer);
    const backward_pass<layer_backend> pass{packed.span().data,
                                            memory.plane(1).data,
                                            write_mode::overwrite,
                                            samples,
                                            {},
                                            &buffers,
                                            &scratch,
                                            &workspace,
                                            {}};
    auto dx_before = nchw_to_blocked<float>(
        before.empty() ? std::vector<double>(size(samples) * In.size()) : before, In, samples,
        in_block);
    int ready_calls = 0;
    const auto ready = [&](std::size_t k) { ready_calls += k == 0 ? 1 : 99; };
    float* dx =
        layer.backward(pass, dy_buffer, {before.empty() ? nullptr : dx_before.data(), true}, ready);
    CHECK(ready_calls == 1);
    return plain(std::vector<float>(dx, dx + dx_before.size()), In, samples, in_block);
  }
  std::vector<float> dw() { return {memory.plane(1).data, memory.plane(1).data + p.weights()}; }

  /// The layer's weights and input as integers, and their scales.
  struct integers {
    std::vector<double> w, x;
    std::vector<float> scales;
    cordee::detail::ops::affine_quantizer<float> k;
  };
  integers as_integers() {
    integers out;
    std::vector<std::int8_t> q(p.weights());
    const std::size_t each = q.size() / size(p.filters);
    for (std::size_t f = 0; f < size(p.filters); ++f)
      out.scales.push_back(cordee::detail::ops::quantize_channel<float>(
          each, memory.plane(0).data + f * each, q.data() + f * each));
    out.w.assign(q.begin(), q.end());
    out.k = cordee::detail::ops::fit_affine(low(), high(), cordee::detail::ops::unsigned_bytes);
    for (const double v : plain(x, In, samples, in_block))
      out.x.push_back(out.k.quantize(static_cast<float>(v)) - out.k.zero_point);
    return out;
  }
};

}  // namespace support
