// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input gradient of a layer as one launch: the GEMMs of a stride's remainders, of which one
// alone may not fill the GPU, and behind them, where they leave multiprocessors idle, the sums of
// the layer's partial weight gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/engines/tensor_core/prologue.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Up to `Parts` GEMMs by ranges of the blocks, then the blocks of `unpack`.
template <class N, class Tile, class Epilogue, class Real, bool OneTap, std::size_t Parts>
struct dgrad_kernel {
  using part = correlation_kernel<N, Tile, identity_prologue, Epilogue, OneTap, (Parts > 1)>;
  using unpack_kernel = unpack_filters_kernel<float, Real>;
  static constexpr int threads = part::threads;

  part parts[Parts];
  unsigned ends[Parts];  // of their blocks, ascending
  unpack_kernel unpack;
  unsigned unpack_blocks;

  static constexpr std::size_t shared_bytes() { return part::shared_bytes(); }
  static_assert(shared_bytes() >= filter_tile::most_numbers * sizeof(float));
  [[nodiscard]] std::size_t blocks() const { return std::size_t{ends[Parts - 1]} + unpack_blocks; }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto block = static_cast<unsigned>(b.index());
    unsigned first = 0;
    for (std::size_t k = 0; k < Parts; first = ends[k++])
      if (block < ends[k]) return parts[k].compute_tile(b, static_cast<int>(block - first));
    unpack.template sum_tile<threads>(b, block - first);
  }
};

/// dx from dy (N, H_out, W_out, K') and crsk (C', R, S, K'), and unless `unpack` is null the weight
/// gradient that it sums.
template <class N, class Epilogue, class Real, GpuStream S>
void launch_dgrad(const convolution_problem& p, int samples, const N* dy, const N* crsk,
                  const Epilogue& epilogue, const unpack_filters_kernel<float, Real>* unpack, S s) {
  const auto gemm = [&](int remainder) {
    return dgrad_gemm<N>(p, samples, remainder / p.stride, remainder % p.stride);
  };
  const int last = p.stride * p.stride - 1;
  const implicit_gemm largest = gemm(0);
  expect_supported(largest);
  with_tensor_core_tile(largest.filters, [&](auto tile) {
    const auto launch = [&]<bool OneTap, std::size_t... K>(std::bool_constant<OneTap>,
                                                           std::index_sequence<K...>) {
      using kernel = dgrad_kernel<N, decltype(tile), Epilogue, Real, OneTap, sizeof...(K)>;
      for (int first = 0; first <= last; first += static_cast<int>(sizeof...(K))) {
        const auto part = [&](int remainder) {
          return typename kernel::part{gemm(std::min(remainder, last)), dy, crsk, {}, epilogue};
        };
        kernel all{{part(first + static_cast<int>(K))...}, {}, {}, 0};
        unsigned end = 0;
        for (std::size_t k = 0; k < sizeof...(K); ++k) {
          const bool writes = epilogue.mode == write_mode::overwrite || all.parts[k].g.depth() != 0;
          if (writes && first + static_cast<int>(k) <= last)
            end += static_cast<unsigned>(all.parts[k].blocks());
          all.ends[k] = end;
        }
        if (unpack != nullptr && first + static_cast<int>(sizeof...(K)) > last) {
          all.unpack = *unpack;
          all.unpack_blocks = static_cast<unsigned>(unpack->tile.blocks());
        }
        s.launch_kernel(all.blocks(), all);
      }
    };
    if (last != 0)
      launch(std::false_type{}, std::make_index_sequence<4>{});
    else if (largest.has_one_tap())
      launch(std::true_type{}, std::make_index_sequence<1>{});
    else
      launch(std::false_type{}, std::make_index_sequence<1>{});
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
