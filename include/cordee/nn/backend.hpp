// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What layers are bound to: a precision, a device and a convolution engine.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/number.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Whether layers on D compute in P. A CPU widens 16-bit activations to float.
template <Precision P, Device D>
inline constexpr bool computes_in =
    !D::host_memory ||
    std::same_as<typename precision::activation_of<P>::type, typename P::master> ||
    (precision::StorageOnly<typename precision::activation_of<P>::type> &&
     std::same_as<typename P::master, float>);

struct no_quantization {};
/// What a network of precision P has beside its layers; of quantized ones in nn/quantization.hpp.
template <class P, class D>
struct quantization_traits {
  static_assert(!Quantized<P>, "int8 without convolutions: include <cordee/nn/quantization.hpp>");
  using type = no_quantization;
};
template <class P, class D>
using quantization_of = typename quantization_traits<P, D>::type;

/// Precision, device and convolution engine of a network.
template <Precision P, Device D, class Engine>
struct backend {
  using precision = P;
  using device = D;
  using stream = typename D::stream;
  using engine = Engine;
  using number = typename detail::precision::activation_of<
      P>::type;                     // activations, their gradients, packed weights
  using real = typename P::master;  // parameters, their gradients, statistics

  /// Whether all parameters are packed at once (ops/packed_table.hpp); else each layer packs its
  /// own.
  static constexpr bool packs_by_table = [] {
    if constexpr (D::host_memory)
      return false;
    else if constexpr (Quantized<P>)
      return requires { requires Engine::packs_bytes_by_table; };
    else
      return requires { requires Engine::packs_by_table; };
  }();
  /// Whether weights are packed in both orders.
  static constexpr bool packs_crsk = requires { requires Engine::packs_crsk; };
  /// Whether the gradients of convolutions may stay packed, too.
  static constexpr bool packs_gradients =
      packs_by_table && !Quantized<P> && requires { requires Engine::packs_gradients; };

  /// Whether backward computes outputs of batch norms again. Not on a GPU, where reading and
  /// writing them would take a larger part of a step, nor in int8, where layers may read bytes.
  static constexpr bool restores_outputs = D::host_memory && !Quantized<P>;

  /// Whether convolutions compute the statistics of the batch norms behind them.
  static constexpr bool computes_statistics = requires { requires Engine::computes_statistics; };

  /// Whether convolutions may normalize their inputs for the batch norms before them.
  static constexpr bool fuses_batch_norm = !D::host_memory && sizeof(number) == 2 &&
                                           !Quantized<P> &&
                                           requires { requires Engine::fuses_batch_norm; };

  /// Whether the fully connected layer is a convolution of one-pixel images: on a GPU in 16 bits,
  /// where engines but `reference` multiply on tensor cores (docs/primitives.md).
  static constexpr bool linear_is_convolution =
      !D::host_memory && detail::precision::StorageOnly<number>;

  static constexpr int block(int channels) { return Engine::template block<number>(channels); }
  [[gnu::noinline]] static constexpr std::size_t numbers(const extent& e) {
    return ops::sample_size(e, block(e.channels));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
