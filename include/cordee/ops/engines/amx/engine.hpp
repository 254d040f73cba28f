// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of processors with tiles (AMX): bf16 and the bytes of int8 by products of tiles, all
// else by engines `winograd` and `direct`.
//
// Activations of bf16 lie in blocks of 32 channels, of which a pixel is a row of a tile; of 16
// where there are fewer than 32, and all together where there are at most four. The packed weights
// hold every weight twice, as tiles of fprop and of dgrad (bf16/packed_weights.hpp). Where the
// system refuses AMX to the process (tiles/permission.hpp) the same loops multiply tiles by
// vectors, with the same bits, and a sentence says so.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/amx/bf16/correlation.hpp>
#include <cordee/ops/engines/amx/bf16/packed_weights.hpp>
#include <cordee/ops/engines/amx/bf16/weight_gradient.hpp>
#include <cordee/ops/engines/amx/bf16/weight_packing.hpp>
#include <cordee/ops/engines/amx/int8/bytes.hpp>
#include <cordee/ops/engines/amx/tiles/permission.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/amx/tiles/tile_vectors.hpp>
#include <cordee/ops/engines/amx/tiles/weight_gradient_plan.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/winograd/engine.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The processor's unit if the process may use it, else tile_vectors: chosen when it runs.
struct granted_tiles {};

/// f(std::type_identity<the unit to use>).
template <class Unit, class F>
void with_tile_unit(const F& f) {
  if constexpr (!std::same_as<Unit, granted_tiles>) {
    f(std::type_identity<Unit>{});
  } else {
    if (tiles_permitted())
      f(std::type_identity<default_tile_unit>{});
    else
      f(std::type_identity<tile_vectors>{});
  }
}

/// Unit is what multiplies tiles: a TileUnit or granted_tiles. The other parameters are those of
/// direct_with, for what is not computed on tiles.
template <class Unit, int Bytes = register_bytes, bool Dots = byte_dots,
          bool BfloatDots = bfloat_dots>
struct amx_with {
  using others = winograd_with<Bytes, Dots, BfloatDots>;  ///< Computes other precisions.
  static constexpr std::string_view name = "amx";         ///< See ConvolutionEngine.

  /// Returns what multiplies bf16, for logs.
  static std::string describe() {
    if constexpr (std::same_as<Unit, granted_tiles>)
      return tiles_of_process().granted
                 ? "bf16 by AMX"
                 : concat("bf16 by vectors, since ", tiles_of_process().reason);
    else
      return "bf16 by a model of AMX";
  }
  /// Returns 32 for bf16, 16 for fewer than 32 channels, and all channels if at most four.
  template <class N>
  static constexpr int block(int channels) {
    if constexpr (std::same_as<N, bfloat>)
      return tile_block_size(channels);
    else
      return others::template block<N>(channels);
  }
  /// Returns the size of both copies of the weights, in numbers.
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    if constexpr (std::same_as<N, bfloat>)
      return tile_packed_weights(p, false).size() + tile_packed_weights(p, true).size();
    else
      return others::template packed_size<N>(p);
  }
  /// Packs weights, rounded to bf16.
  template <class N>
  static void pack(const convolution_problem& p,
                   const precision::wide<N>* master,  // (K, C, R, S)
                   N* packed,                         // tiles of fprop, then those of dgrad
                   cpu::stream s) {
    if constexpr (std::same_as<N, bfloat>) {
      pack_tiles(p, master, packed, packed + tile_packed_weights(p, false).size(), s);
    } else {
      others::template pack<N>(p, master, packed, s);
    }
  }
  /// See ConvolutionEngine.
  template <class N>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, C/V, H, W, V)
                    const N* packed,  // tiles of fprop, then those of dgrad
                    N* y,             // (N, K/V, H', W', V)
                    cpu::stream s) {
    if constexpr (std::same_as<N, bfloat>)
      correlate(p, false, samples, x, packed, y, write_mode::overwrite, s);
    else
      others::template fprop<N>(p, samples, x, packed, y, s);
  }
  /// See ConvolutionEngine.
  template <class N>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (N, K/V, H', W', V)
                    const N* packed,  // tiles of fprop, then those of dgrad
                    N* dx,            // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    if constexpr (std::same_as<N, bfloat>)
      correlate(p, true, samples, dy, packed + tile_packed_weights(p, false).size(), dx, mode, s);
    else
      others::template dgrad<N>(p, samples, dy, packed, dx, mode, s);
  }
  /// Returns the memory for partial gradients.
  template <class N>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream s) {
    if constexpr (std::same_as<N, bfloat>)
      return plan_amx_gradient(p, samples).workspace() * numbers_per_wide<N>;
    else
      return others::template workspace<N>(p, samples, s);
  }
  /// See ConvolutionEngine.
  template <class N>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,              // (N, C/V, H, W, V)
                    const N* dy,             // (N, K/V, H', W', V)
                    precision::wide<N>* dw,  // (K, C, R, S)
                    write_mode mode,
                    N* workspace,  // (groups, tiles of sums)
                    cpu::stream s) {
    if constexpr (std::same_as<N, bfloat>) {
      with_tile_unit<Unit>([&](auto unit) {
        amx_weight_gradient<typename decltype(unit)::type>(p, samples)
            .run(x, dy, dw, mode, as_wide(workspace), s);
      });
    } else {
      others::template wgrad<N>(p, samples, x, dy, dw, mode, workspace, s);
    }
  }

  /// Returns the bytes in engine `direct`'s form, or in tiles if they are permitted.
  static std::size_t packed_bytes(const convolution_problem& p) { return bytes(p).packed_size(); }
  /// See ByteEngine (ops/convolution_bytes.hpp).
  static void pack_bytes(const convolution_problem& p,
                         const std::int8_t* weights,  // (K, C, R, S)
                         std::int8_t* packed,         // packed_bytes(p)
                         cpu::stream) {
    bytes(p).pack(weights, packed);
  }
  /// See ByteEngine (ops/convolution_bytes.hpp). The bits are those of engine `direct`.
  /// @throws usage_error as engine `direct`.
  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  static void fprop_bytes(const convolution_problem& p, int samples,
                          const In* x,  // (N, C/V, H, W, V)
                          const affine_quantizer<float>& k,
                          const std::int8_t* packed,  // packed_bytes(p)
                          const float* scales,        // (K)
                          Out* y,                     // (N, K/V, H', W', V)
                          cpu::stream s) {
    check_byte_problem(p, k);
    bytes(p).run(samples, x, k, packed, scales, y, s);
  }

 private:
  static auto bytes(const convolution_problem& p) {
    constexpr int V = Bytes / static_cast<int>(sizeof(float));
    return std::conditional_t<std::same_as<Unit, granted_tiles>, default_byte_correlation<V>,
                              byte_correlation<V, Dots>>(p);
  }
  static void correlate(const convolution_problem& p, bool backward, int samples, const bfloat* x,
                        const bfloat* packed, bfloat* y, write_mode mode, cpu::stream s) {
    with_tile_unit<Unit>([&](auto unit) {
      tile_correlation<typename decltype(unit)::type>(p, backward)
          .run(samples, x, packed, y, mode, s);
    });
  }
};

}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
