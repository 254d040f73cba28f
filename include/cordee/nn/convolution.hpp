// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution without bias, y = w * x, padded by half its window, to be followed by batch norm.
//
// Initial weights are normal with variance 2 / (filters window^2): He et al., 2015, fan-out mode.
#pragma once

#include <cordee/nn/convolution_node.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/quantized_convolution.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI {

/// Convolution with square windows of odd size.
template <int Filters, int Window = 3, int Stride = 1>
struct convolution {
  static_assert(Filters > 0 && Window > 0 && Window % 2 == 1 && Stride > 0,
                "a convolution needs filters, an odd window and a positive stride");

  /// Returns the geometry for inputs of extent `in`.
  static constexpr convolution_problem problem(const extent& in) {
    return {in, Filters, Window, Stride, Window / 2};
  }
  static constexpr extent out(const extent& in) { return problem(in).out(); }  ///< See Layer.
  /// Adds "weight", (Filters, channels, Window, Window), of the next convolution.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_convolution();
    registry.add_tensor("weight", kind::weight, {Filters, in.channels, Window, Window},
                        {.variance = 2.0 / (Filters * Window * Window)});
    registry.add_input_range();
    registry.add_macs(problem(in).macs(), 1);
    registry.leave(parent);
  }

  /// See Layer. An input that is empty or smaller than the stride is a compile error.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    static_assert(In.channels > 0 && In.height > 0 && In.width > 0,
                  "the input of a convolution has no pixels or no channels");
    static_assert(Stride == 1 || (In.height >= Stride && In.width >= Stride),
                  "a stride is larger than the image: use a larger image, fewer stages or "
                  "stride 1");
    if constexpr (Quantized<typename B::precision>)
      return detail::nn::quantized_convolution_node<B>(problem(In), layout);
    else
      return detail::nn::convolution_node<B>(problem(In), layout);
  }
};

namespace detail::nn {
template <int Filters, int Window, int Stride>
inline constexpr bool forgets_input<convolution<Filters, Window, Stride>> = true;
template <int Filters, int Window, int Stride>
inline constexpr bool forgets_output<convolution<Filters, Window, Stride>> = true;
}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
