// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The quantizer of a convolution's input in int8: of its running range, which training updates.
// Without a running range, training uses the batch's; evaluation throws an error that names the
// layer.
#pragma once

#include <cstddef>
#include <string_view>

#include <cordee/nn/layer.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

template <class B>
class input_quantizer {
  using number = typename B::number;

 public:
  /// Takes a range from the table, of the layer of this segment.
  input_quantizer(const extent& in, std::size_t segment, layout_builder& layout)
      : in_(in),
        segment_(segment),
        low_(layout.table[layout.next_statistic].offset),
        high_(layout.table[layout.next_statistic + 1].offset),
        name_(layout.table[segment].name),
        layer_(layout.quantized_layers++) {
    layout.next_statistic += 2;
    name_.remove_suffix(std::string_view(".weight").size());
  }

  /// The number of the layer among the quantized ones.
  [[nodiscard]] std::size_t layer() const { return layer_; }
  [[nodiscard]] std::size_t numbers(const forward_pass<B>& pass) const {
    return static_cast<std::size_t>(pass.samples) * B::numbers(in_);
  }
  /// The number of zeros that pad the blocks of channels.
  [[nodiscard]] std::size_t filling(const forward_pass<B>& pass) const {
    return numbers(pass) - static_cast<std::size_t>(pass.samples) * in_.size();
  }

  ops::real_range observe(const forward_pass<B>& pass, const number* x) const {
    const std::size_t n = numbers(pass);
    const ops::real_range range = ops::range_of(n, x, pass.s, filling(pass));
    pass.quantization->observe(layer_, range, n, x, pass.s, filling(pass));
    return range;
  }
  /// The quantizer of x; in training, observes x, unless the layer is frozen and has its range.
  ops::affine_quantizer<float> quantizer(const forward_pass<B>& pass, const number* x) const {
    const ops::real_range running{pass.plane[low_], pass.plane[high_]};
    const bool stays = pass.is_frozen(segment_) && running.has_values();
    if (pass.phase == phase::train && !stays)
      return ops::fit_input(running, observe(pass, x), pass.samples > 0);
    if (!running.has_values()) throw_unknown_range(name_);
    return ops::fit_affine(running.low, running.high, ops::unsigned_bytes);
  }

  /// For what writes x: in training, it quantizes it as well; null otherwise.
  ops::quantized_input target(const forward_pass<B>& pass) {
    has_bytes_ = pass.phase == phase::train && pass.samples > 0;
    return has_bytes_ ? quantized_input(pass) : ops::quantized_input{};
  }
  /// The quantizer on a GPU, in device memory; read_metrics throws if a range was missing.
  ops::affine_quantizer<float>* device_quantizer(const forward_pass<B>& pass, const number* x) {
    auto& quantization = *pass.quantization;
    const auto *low = pass.plane + low_, *high = pass.plane + high_;
    ops::observed_input* const record = quantization.records.span().data + layer_;
    // for a GPU by argument-dependent lookup: ops/gpu/{quantize,quantized_input,histogram}.hpp
    if (pass.phase != phase::train) {
      recall_input(low, high, record, pass.s);
      return &record->quantizer;
    }
    const std::size_t n = numbers(pass);
    if (!has_bytes_) quantize_input(n, x, quantized_input(pass), pass.s);
    if (quantization.percentile < 100)
      add_to_histogram(n, x, quantization.counts.span().data + layer_ * ops::histogram_bins::count,
                       pass.s, filling(pass), {pass.is_frozen(segment_) ? low : nullptr, high});
    return &record->quantizer;
  }

 private:
  ops::quantized_input quantized_input(const forward_pass<B>& pass) const {
    pass.quantization->bytes.reserve(numbers(pass));
    return {pass.quantization->bytes.span().data,
            pass.plane + low_,
            pass.plane + high_,
            pass.quantization->records.span().data + layer_,
            filling(pass),
            pass.is_frozen(segment_)};
  }

  extent in_;
  std::size_t segment_, low_, high_;
  std::string_view name_;
  std::size_t layer_;
  bool has_bytes_ = false;  // of this pass: x is quantized already
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
