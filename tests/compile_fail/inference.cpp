// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network that has no form outside training does not compile there.
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/onnx.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;

/// A layer that trains, but that no walk over layers has a case for.
struct own_layer {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, parameter_registry&) {}
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    return relu::bind<B, In>(layout);
  }
};
/// Layers that may compute something else than what they are derived from.
struct own_relu : relu {};
struct own_sequential : sequential<relu> {};
template <Layer L, class P>
using network_of = network<sequential<convolution<4>, L, global_average_pool, linear<2>>, P, cpu,
                           direct, extent{3, 8, 8}, 2>;

#if defined(ONNX_OF_AN_UNKNOWN_LAYER)
using exported = network_of<own_layer, fp32>;
using integers = network_of<relu, int8>;
#elif defined(INTEGERS_OF_AN_UNKNOWN_LAYER)
using exported = network_of<relu, fp32>;
using integers = network_of<own_layer, int8>;
#elif defined(ONNX_OF_A_DERIVED_LAYER)
using exported = network_of<own_sequential, fp32>;
using integers = network_of<relu, int8>;
#elif defined(INTEGERS_OF_A_DERIVED_LAYER)
using exported = network_of<relu, fp32>;
using integers = network_of<own_relu, int8>;
#elif defined(INTEGERS_OF_FP32)
using exported = network_of<relu, fp32>;
using integers = network_of<relu, fp32>;
#elif defined(INTEGERS_OF_3_BITS)
using exported = network_of<relu, fp32>;
using integers = network_of<relu, low_bit_weights<3>>;
#elif defined(INTEGERS_OF_9_BITS)
using exported = network_of<relu, fp32>;
using integers = network_of<relu, low_bit_weights<9>>;
#else
using exported = network_of<relu, fp32>;
using integers = network_of<relu, low_bit_weights<2>>;
#endif

void use(const exported& model, span_on<const float, cpu> plane) {
  write_onnx("net.onnx", model, plane);
  static_cast<void>(integer_network::from<integers>(plane, {}));
}
