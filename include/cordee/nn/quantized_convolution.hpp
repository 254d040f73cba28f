// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution with int8 operands (Jacob et al., 2018).
//
//   forward    y = s_x s_w (w_q * (x_q - z))                         in integers, scaled once
//   backward   dw = wgrad(x', dy),  dx = dgrad(dy, w') where x was not clipped, 0 elsewhere
//
// x' and w' are x and w after quantization. Weights are quantized when they are packed, each filter
// by its largest absolute value; the input by nn/input_quantizer.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/nn/input_quantizer.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_bytes.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

template <class B>
class quantized_convolution_node {
  using number = typename B::number;
  using engine = typename B::engine;
  static constexpr bool on_cpu = B::device::host_memory;
  using scaling =
      std::conditional_t<on_cpu, ops::affine_quantizer<float>, ops::affine_quantizer<float>*>;
  static_assert(
      ops::ByteEngine<engine, typename B::stream>,
      "this engine has no int8 convolution: use direct or reference, on a GPU tensor_core");
  static constexpr int weight_bits = precision::weight_bits<typename B::precision>;
  static_assert(weight_bits == 8 || on_cpu, "low_bit_weights is for the CPU: use int8 on a GPU");
  // The type of the operands of gradients: the engine's choice, or that of activations.
  struct activation_gradients {
    using byte_gradient = number;
  };
  using gradient = typename std::conditional_t<ops::HasByteGradient<engine>, engine,
                                               activation_gradients>::byte_gradient;

 public:
  static constexpr bool skips_frozen_gradients = true;
  [[gnu::cold, gnu::noinline]] quantized_convolution_node(const convolution_problem& problem,
                                                          layout_builder& layout)
      : problem_(problem),
        segment_(layout.next_segment++),
        weights_(layout.table[segment_].offset),
        input_(problem.in, segment_, layout),
        packed_(layout.template reserve_packed<gradient>(packed_dequantized_size(problem))),
        packed_bytes_(layout.template reserve_packed<std::int8_t>(engine::packed_bytes(problem))),
        scales_(layout.template reserve_packed<float>(static_cast<std::size_t>(problem.filters))),
        activation_(layout.add_activation(sizeof(number) * B::numbers(problem.out()))) {
    layout.note_activation_size(std::max(B::numbers(problem.in), B::numbers(problem.out())));
    if constexpr (!on_cpu)
      layout.split_packed(packed_bytes_, layout.packed_size, packed_, packed_bytes_);
    if constexpr (B::packs_by_table)
      layout.add_packed(ops::packed_quantized_weights(
          {problem, B::block(problem.in.channels), B::block(problem.filters)}, weights_, packed_,
          packed_bytes_, scales_));
  }

  void pack_parameters(const pack_pass<B>& pass) const {
    const std::size_t size = problem_.weights(), filters = size_of(problem_.filters);
    // q: int8 weights; dequantized: w' in float
    const auto pack = [&](std::int8_t* q, number* dequantized) {
      auto* const scales = pass.template packed_at<float>(scales_);
      // for a GPU by argument-dependent lookup: ops/gpu/quantize.hpp
      if constexpr (weight_bits == 8)
        quantize_filters(filters, size / filters, pass.plane + weights_, q, dequantized, scales,
                         pass.s);
      else
        quantize_filters(filters, size / filters, pass.plane + weights_, q, dequantized, scales,
                         pass.s, weight_bits);
      engine::pack_bytes(problem_, q, pass.template packed_at<std::int8_t>(packed_bytes_), pass.s);
      auto* const packed = pass.template packed_at<gradient>(packed_);
      if constexpr (ops::HasByteGradient<engine>)
        engine::pack_dequantized(problem_, dequantized, packed, pass.s);
      else
        engine{}.template pack<number>(problem_, dequantized, packed, pass.s);
    };
    if constexpr (on_cpu) {
      thread_local std::vector<std::int8_t> q;  // reused by all layers and steps
      thread_local std::vector<number> dequantized;
      q.resize(std::max(q.size(), size));
      dequantized.resize(q.size());
      pack(q.data(), dequantized.data());
    } else {
      const device::stream_buffer<std::int8_t, typename B::stream> q(pass.s, size);
      const device::stream_buffer<number, typename B::stream> dequantized(pass.s, size);
      pack(q.data(), dequantized.data());
    }
  }

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = begin_forward(pass, x);
    if constexpr (on_cpu) {
      if (!pass.quantization->observer.is_quantized(input_.layer())) {
        run_fp32(pass, x, y);
        return y;
      }
      quantizer_ = input_.quantizer(pass, x);
    } else {
      quantizer_ = input_.device_quantizer(pass, x);
    }
    fprop(pass, x, y);
    return y;
  }
  /// And the statistics of the batch norm behind it.
  template <class Norm>
  const number* forward(const forward_pass<B>& pass, const number* x, Norm& norm)
    requires requires { norm.statistics_of(pass); }
  {
    number* const y = begin_forward(pass, x);
    quantizer_ = input_.device_quantizer(pass, x);
    fprop(pass, x, y, norm.statistics_of(pass));
    return y;
  }
  /// For what writes the input: in training, it quantizes it as well; null otherwise.
  ops::quantized_input input_target(const forward_pass<B>& pass)
    requires(!on_cpu)
  {
    return input_.target(pass);
  }
  /// For what writes dy: it writes it as an operand of the gradients, and the other operand.
  auto gradient_operands(const backward_pass<B>& pass)
    requires(!on_cpu && ops::HasByteGradient<engine>)
  {
    operand_ = pass.gradients->acquire(size_of(pass.samples) * B::numbers(problem_.in));
    const std::size_t n = pass.is_frozen(segment_) ? 0 : B::numbers(problem_.in);
    return ops::dequantized_input<gradient>{size_of(pass.samples) * n, x_, quantizer_,
                                            reinterpret_cast<gradient*>(operand_)};
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    if constexpr (ops::HasByteGradient<engine>) {
      const bool adds = target.accumulate_into != nullptr;
      number* const dx =
          !target.needed ? nullptr
          : adds         ? target.accumulate_into
                         : pass.gradients->acquire(size_of(pass.samples) * B::numbers(problem_.in));
      auto* const dw = pass.gradient_at(segment_, weights_);
      const auto run = [&](const auto*... operands) {
        engine::backward_bytes(problem_, pass.samples, x_, quantizer_, operands...,
                               pass.template packed_at<gradient>(packed_), dw, pass.mode, dx,
                               adds ? write_mode::add : write_mode::overwrite, pass.s);
      };
      if (operand_ == nullptr) {
        run(dy);
      } else {
        run(reinterpret_cast<const gradient*>(operand_), reinterpret_cast<const gradient*>(dy));
        pass.gradients->release(operand_);
        operand_ = nullptr;
      }
      pass.gradients->release(dy);
      ready(segment_);
      return dx;
    } else {
      return backward_by_activations(pass, dy, target, ready);
    }
  }

 private:
  static std::size_t packed_dequantized_size(const convolution_problem& p) {
    if constexpr (ops::HasByteGradient<engine>)
      return engine::packed_dequantized_size(p);
    else
      return engine{}.template packed_size<number>(p);
  }

  template <class Ready>
  number* backward_by_activations(const backward_pass<B>& pass, number* dy,
                                  gradient_target<number> target, Ready& ready) {
    const std::size_t in = static_cast<std::size_t>(pass.samples) * B::numbers(problem_.in);
    number* const buffer = pass.gradients->acquire(in);  // x', then dx
    if (!pass.is_frozen(segment_)) {
      // for a GPU by argument-dependent lookup: ops/gpu/quantize.hpp
      fake_quantize(in, x_, quantizer_, buffer, pass.s);
      pass.workspace->reserve(engine{}.template workspace<number>(problem_, pass.samples, pass.s));
      engine{}.template wgrad<number>(problem_, pass.samples, buffer, dy,
                                      pass.gradient_at(segment_, weights_), pass.mode,
                                      pass.workspace->span().data, pass.s);
    }
    if (target.needed) {
      engine{}.template dgrad<number>(problem_, pass.samples, dy,
                                      pass.template packed_at<number>(packed_), buffer,
                                      write_mode::overwrite, pass.s);
      // for a GPU by argument-dependent lookup: ops/gpu/quantize.hpp
      straight_through(in, x_, quantizer_, buffer, target.accumulate_into, pass.s);
    }
    pass.gradients->release(dy);
    const bool returned = target.needed && target.accumulate_into == nullptr;
    if (!returned) pass.gradients->release(buffer);
    ready(segment_);
    return returned ? buffer : target.accumulate_into;
  }

  number* begin_forward(const forward_pass<B>& pass, const number* x) {
    x_ = x;
    return pass.buffer_for(activation_, B::numbers(problem_.out()));
  }
  template <class... Statistics>
  void fprop(const forward_pass<B>& pass, const number* x, number* y,
             const Statistics&... statistics) const {
    const auto run = [&](const auto* in) {
      engine::fprop_bytes(problem_, pass.samples, in, quantizer_,
                          pass.template packed_at<std::int8_t>(packed_bytes_),
                          pass.template packed_at<float>(scales_), y, statistics..., pass.s);
    };
    if constexpr (!on_cpu)
      if (pass.phase == phase::train)
        return run(std::as_const(pass.quantization->bytes).span().data);
    run(x);
  }
  static constexpr std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

  /// Forward in FP32, by the masters, so that the following layers read what FP32 would compute.
  [[gnu::cold, gnu::noinline]] void run_fp32(const forward_pass<B>& pass, const number* x,
                                             number* y) {
    std::vector<number> packed(engine{}.template packed_size<number>(problem_));
    engine{}.template pack<number>(problem_, pass.plane + weights_, packed.data(), pass.s);
    quantization_observer& observer = pass.quantization->observer;
    if (observer.mode == quantization_observer::run_mode::observed) input_.observe(pass, x);
    const bool compared = observer.mode == quantization_observer::run_mode::compared;
    std::vector<number> quantized(compared ? size_of(pass.samples) * B::numbers(problem_.out())
                                           : 0);
    if (compared) {
      quantizer_ = input_.quantizer(pass, x);
      fprop(pass, x, quantized.data());
    }
    engine{}.template fprop<number>(problem_, pass.samples, x, packed.data(), y, pass.s);
    if (!compared) return;
    layer_observer& layer = observer.layers[input_.layer()];
    layer.add_errors(size_of(pass.samples), problem_.out(), size_of(B::block(problem_.filters)),
                     quantized.data(), y);
    const std::size_t in = input_.numbers(pass);
    for (std::size_t i = 0; i < in; ++i) layer.clipped += quantizer_.in_range(x[i]) ? 0 : 1;
    layer.count += static_cast<double>(in - input_.filling(pass));
  }

  convolution_problem problem_;
  std::size_t segment_, weights_;
  input_quantizer<B> input_;
  std::size_t packed_, packed_bytes_, scales_, activation_;
  scaling quantizer_{};
  const number* x_ = nullptr;
  number* operand_ = nullptr;  // of the gradients, the other being dy; written already
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
