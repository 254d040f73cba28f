// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the integer form of a trained network (Jacob et al., 2018), in double precision.
//
//   weights      w_q of the layer as in training: per filter, symmetric
//   batch norm   folded into the steps of the filters: s_w f, a negative factor f turns w_q's signs
//   factor       s_x s_w f / s_y
//   bias         b / s_y, in the finest 2^-s in which the biases of a layer have 31 bits; added to
//                the product with the factor before its rounding, as training adds it to a float
//
// The step s_y of an output is that of the convolution that reads it; 2^-14 of it at a residual
// block; and before the mean, where no range was observed, the bound of the sums / 2^23. Before a
// batch norm that is not folded each filter has its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/infer/program/layer_list.hpp>
#include <cordee/infer/quantize/folded_filter.hpp>
#include <cordee/infer/quantize/trained_numbers.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

class program_builder {
 public:
  /// `weight_bits`: of convolutions.
  program_builder(const layer_list& list, std::span<const float> plane, int weight_bits = 8)
      : list_(list.layers()),
        numbers_(plane),
        quantizers_(list_.size()),
        formats_(list_.size()),
        unfolded_(list_.size()),
        weight_bits_(weight_bits) {}

  /// Throws error that names the layer if the network has no ranges, numbers that are not finite,
  /// or biases and outputs that the integers cannot hold; usage_error if the normalization is not
  /// finite.
  integer_program build(const extent& image, const normalization& pixels) {
    expects(!list_.empty() && list_.front().as<convolution_problem>() != nullptr &&
                list_.back().as<classifier_problem>() != nullptr,
            "infer: a network begins with a convolution and ends in linear");
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c)
      expects(std::isfinite(pixels.mean[c]) && std::isfinite(pixels.scale[c]),
              "infer: the normalization of the images is not finite");
    integer_program program{.image = image, .table = {}, .steps = {}};
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].as<convolution_problem>() != nullptr)
        quantizers_[i] = numbers_.input_quantizer(list_[i]);
    for (std::size_t i = list_.size(); i-- > 0;) formats_[i] = format_of(static_cast<int>(i));
    for (std::size_t i = 0; i < list_.size(); ++i) {
      integer_step step{.layer = {},
                        .name = std::string(list_[i].name),
                        .input = list_[i].input,
                        .residual = list_[i].residual};
      std::visit([&](const auto& problem) { add_layer(i, problem, step); }, list_[i].problem);
      step.bytes = formats_[i].bytes;
      steps_.push_back(std::move(step));
    }
    program.steps = std::move(steps_);
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c)
      for (int byte = 0; byte < 256; ++byte)
        program.table.push_back(static_cast<std::uint8_t>(quantizers_[0].quantize(
            (static_cast<float>(byte) / 255 - pixels.mean[c]) * pixels.scale[c])));
    return program;
  }
  /// The number that one step of a logit, or of a layer's output, stands for.
  [[nodiscard]] double logit_step() const { return formats_.back().step; }
  [[nodiscard]] double step(std::size_t layer) const { return formats_[layer].step; }

 private:
  /// The integers of a layer's output: the real is step (q - zero_point).
  struct format {
    int bytes = 1;
    double step = 1;  // 0: not known yet
    int zero_point = 0;
    double bound = 0;  // of the output's magnitudes
  };
  /// The format of layer i's output, but for the step where there is no range.
  [[nodiscard]] format format_of(int i) const {
    const auto& self = list_[static_cast<std::size_t>(i)];
    if (self.as<ops::subsample_problem>() != nullptr) return residual_format(self.input);
    int readers = 0;
    for (std::size_t k = 0; k < list_.size(); ++k) {
      const listed_layer& reader = list_[k];
      if (reader.input == i && reader.as<ops::max_pool_problem>() != nullptr) return formats_[k];
      readers += (reader.input == i ? 1 : 0) + (reader.residual == i ? 1 : 0);
    }
    if (first_reader<norm_problem>(i) >= 0) return {.bytes = 4, .step = 0};
    const int first = first_reader<convolution_problem>(i);
    if (readers > 1 && first >= 0) return residual_format(i);
    if (first >= 0) return of_quantizer(quantizers_[static_cast<std::size_t>(first)]);
    for (std::size_t k = 0; k < list_.size(); ++k)
      if (list_[k].residual == i && formats_[k].bytes == 4) return formats_[k];
    return {.bytes = 4, .step = 0};
  }
  /// The first layer of this kind that reads the output of layer i; -1 if there is none.
  template <class Problem>
  [[nodiscard]] int first_reader(int i) const {
    for (std::size_t k = 0; k < list_.size(); ++k)
      if (list_[k].input == i && list_[k].as<Problem>() != nullptr) return static_cast<int>(k);
    return -1;
  }
  [[nodiscard]] static format of_quantizer(const ops::affine_quantizer<float>& k) {
    return {.bytes = 1, .step = static_cast<double>(k.scale), .zero_point = k.zero_point};
  }
  [[nodiscard]] format residual_format(int i) const {
    const int first = first_reader<convolution_problem>(i);
    expects(first >= 0, "infer: a shortcut reads what no convolution reads");
    const double step = of_quantizer(quantizers_[static_cast<std::size_t>(first)]).step;
    return {.bytes = 4, .step = step / residual_steps};
  }

  void add_layer(std::size_t i, const convolution_problem& p, integer_step& step) {
    const listed_layer& layer = list_[i];
    const auto filters = static_cast<std::size_t>(p.filters);
    const std::size_t filter_size = p.weights() / filters;
    if (filter_size > static_cast<std::size_t>(most_terms))
      trained_numbers::refuse(layer, "its sums overflow 32 bits");
    integer_convolution c;
    c.problem = p;
    c.weight_bits = weight_bits_;
    c.zero_point = quantizers_[i].zero_point;
    const double x_step = static_cast<double>(quantizers_[i].scale);
    std::vector<double> scales = numbers_.quantize(layer, c.weights, filters, weight_bits_),
                        bias(filters);
    if (layer.norm != nullptr) numbers_.fold(layer, scales, bias);
    std::vector<folded_filter> fitted;
    double bound = 0;
    for (std::size_t k = 0; k < filters; ++k) {
      fitted.push_back(fold_filter(std::span(c.weights).subspan(k * filter_size, filter_size),
                                   x_step * scales[k], bias[k]));
      bound = std::max(bound, fitted.back().bound());
    }
    if (layer.input >= 0) {
      const format& x = formats_[static_cast<std::size_t>(layer.input)];
      if (x.bytes > 1) c.input_factor = factor_of(x.step / x_step);
    }
    if (first_reader<norm_problem>(static_cast<int>(i)) >= 0) {  // which sets the factors
      c.bias.assign(filters, 0);
      unfolded_[i] = std::move(fitted);
    } else {
      set_format(i, bound);
      set_output(i, c);
      const int least_shift = formats_[i].bytes == 1 ? byte_bias_shift : least_bias_shift;
      if (const auto k = fit_factors(fitted, formats_[i].step, limit_of(i), least_shift, c))
        trained_numbers::refuse(
            layer, concat("filter ", *k, " has a bias of ", fitted[*k].bias / formats_[i].step,
                          " steps of its output, which its sums may cancel", constant_channel));
    }
    step.layer = std::move(c);
  }
  void add_layer(std::size_t i, const norm_problem& p, integer_step& step) {
    const listed_layer& layer = list_[i];
    std::vector<folded_filter> filters = unfolded_[static_cast<std::size_t>(layer.input)];
    std::vector<double> scales, bias(filters.size());
    for (const folded_filter& f : filters) scales.push_back(f.unit);
    numbers_.fold(layer, scales, bias);
    double bound = 0;
    for (std::size_t k = 0; k < filters.size(); ++k) {
      filters[k].unit = scales[k];
      filters[k].bias = bias[k];
      bound = std::max(bound, filters[k].bound());
    }
    set_format(i, bound);
    const format& y = formats_[i];
    // Of 18 bits of sums, which are then half of it off: of a step of bytes, or of what is usual.
    const double coarsest = y.bytes == 1 ? 0.25
                            : first_reader<convolution_problem>(static_cast<int>(i)) >= 0
                                ? residual_steps / 4.0
                                : numbers_.usual_output(layer) / y.step / 32;
    auto n = unfold_batch_norm(
        filters, y.step, limit_of(i), coarsest,
        std::get<integer_convolution>(steps_[static_cast<std::size_t>(layer.input)].layer));
    if (!n)
      trained_numbers::refuse(layer, concat("no integers of 64 bits are exact", constant_channel));
    n->in = p.in;
    set_output(i, *n);
    step.layer = std::move(*n);
  }
  /// The format of layer i, whose sums without a shortcut are within `bound`.
  void set_format(std::size_t i, double bound) {
    const listed_layer& layer = list_[i];
    format& y = formats_[i];
    // A step is then at most 1/256 of what is usual.
    if (y.step == 0 && layer.norm != nullptr && bound > 0x1p15 * numbers_.usual_output(layer))
      trained_numbers::refuse(layer,
                              concat("its output may be ", bound / numbers_.usual_output(layer),
                                     " times |gamma| + |beta|", constant_channel));
    if (layer.residual >= 0) bound += formats_[static_cast<std::size_t>(layer.residual)].bound;
    y.bound = bound;
    if (y.step == 0)
      y.step = bound == 0 ? 1 : bound / (wide_limit - 2);  // two roundings
    else
      y.bound = wide_limit * y.step;
  }
  /// Beyond so many steps layer i's output is clipped, whatever the shortcut adds.
  [[nodiscard]] double limit_of(std::size_t i) const {
    const int residual = list_[i].residual;
    const format& y = formats_[i];
    const double added =
        residual < 0 ? 0 : formats_[static_cast<std::size_t>(residual)].bound / y.step;
    return (y.bytes == 1 ? 256 : wide_limit) + added;
  }
  /// What is added, and the limits of the output.
  template <class Layer>
  void set_output(std::size_t i, Layer& out) const {
    const listed_layer& layer = list_[i];
    const format& y = formats_[i];
    if (layer.residual >= 0) {
      const format& added = formats_[static_cast<std::size_t>(layer.residual)];
      if (added.bytes == 1)
        trained_numbers::refuse(layer, "what its shortcut adds is rounded to bytes");
      out.residual_factor = factor_of(added.step / y.step);
    }
    out.offset = y.zero_point;
    out.low = layer.relu ? y.zero_point : y.bytes == 1 ? 0 : -wide_limit;
    out.high = y.bytes == 1 ? 255 : wide_limit;
  }
  void add_layer(std::size_t i, const classifier_problem& p, integer_step& step) {
    const listed_layer& layer = list_[i];
    expects(i + 1 == list_.size(), "infer: a network has one linear, which is its last layer");
    const format& x = formats_[static_cast<std::size_t>(layer.input)];
    expects(x.bytes == 4, "infer: linear reads global_average_pool, or a convolution");
    integer_classifier c;
    if (p.features > most_terms) trained_numbers::refuse(layer, "its sums overflow 32 bits");
    c.features = static_cast<std::size_t>(p.features);
    c.classes = static_cast<std::size_t>(p.classes);
    const std::vector<double> scales = numbers_.quantize(layer, c.weights, c.classes, 15),
                              bias = numbers_.bias(layer);
    std::vector<double> units;
    double bound = 0;
    for (std::size_t k = 0; k < c.classes; ++k) {
      folded_filter f = fold_filter(std::span(c.weights).subspan(k * c.features, c.features),
                                    x.step * scales[k], bias[k]);
      const double least = std::abs(f.bias) / 0x1p50;
      if (f.unit < least) {  // the bias alone counts
        for (auto& w : std::span(c.weights).subspan(k * c.features, c.features))
          w = static_cast<std::int16_t>(std::nearbyint(w * (f.unit / least)));
        f.unit = least;
      }
      c.bias.push_back(std::llrint(f.bias / f.unit));
      units.push_back(f.unit);
      bound = std::max(bound, f.magnitude * wide_limit + std::abs(f.bias / f.unit));
    }
    while (std::ldexp(bound, -c.shift) >= 0x1p30) ++c.shift;
    const double largest = *std::max_element(units.begin(), units.end());
    for (const double unit : units) c.factors.push_back(factor_of(unit / largest));
    formats_[i] = format{.bytes = 4, .step = std::ldexp(largest, c.shift)};
    step.layer = std::move(c);
  }
  void add_layer(std::size_t i, const mean_problem& p, integer_step& step) {
    formats_[i] = formats_[static_cast<std::size_t>(list_[i].input)];
    expects(formats_[i].bytes == 4, "infer: global_average_pool reads a convolution");
    step.layer = p;
  }
  template <class Problem>  // a layer that keeps its input's integers
  void add_layer(std::size_t i, const Problem& p, integer_step& step) {
    formats_[i] = formats_[static_cast<std::size_t>(list_[i].input)];
    step.layer = p;
  }

  /// The usual reason for a bias of that size.
  static constexpr std::string_view constant_channel =
      ": is a channel nearly constant, with a variance near 0 and a mean that is not?";
  /// Bias shift for bytes: a bias is then off by at most 2^-9 of a step, as the least one of 32
  /// bits.
  static constexpr int byte_bias_shift = 8;

  const std::vector<listed_layer>& list_;
  trained_numbers numbers_;
  std::vector<ops::affine_quantizer<float>> quantizers_;
  std::vector<format> formats_;
  std::vector<std::vector<folded_filter>> unfolded_;  // of convolutions that a batch norm reads
  int weight_bits_;
  std::vector<integer_step> steps_;  // so far
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
