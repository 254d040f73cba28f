// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// 3x3 windows of bytes with stride 1 and AVX2 alone, by F(2x2, 3x3) in integers: 16 products of 16
// bits to a tile of 2x2 pixels instead of 36 (Winograd, 1980; Lavin and Gray, 2016).
//
//   4 y = A^T [ sum over c of (2 G g 2 G^T) . (B^T x B) ] A
//
//   A^T = | 1  1  1  0 |    B^T = | 1  0 -1  0 |    2 G = | 2  0  0 |
//         | 0  1 -1 -1 |          | 0  1  1  0 |          | 1  1  1 |
//                                 | 0 -1  1  0 |          | 1 -1  1 |
//                                 | 0  1  0 -1 |          | 0  0  2 |
//
// Twice G has integers; transformed bytes are within 1,020 and weights within 1,152, so both have
// 16 bits, as in byte_pair_tile.hpp, whose tile multiplies them. Sums are modulo 2^32: that of a
// tile's four pixels, four times the convolution's, is within 32 bits for up to 1,024 channels, so
// a shift by two bits is exact.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/equal_part.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/int8/byte_pair_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_region.hpp>
#include <cordee/ops/engines/direct/int8/byte_sample.hpp>
#include <cordee/ops/engines/direct/int8/byte_terms.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// With the functions of byte_correlation_by. Requires computes(p).
template <int V>
class byte_winograd {
  using wide = vec<std::int32_t, V>;
  using modular = vec<std::uint32_t, V>;  // sums wrap
  using shorts = vec<std::int16_t, V>;

 public:
  using chunk = byte_sums_chunk;

  static bool computes(const convolution_problem& p) {
    return p.window == 3 && p.stride == 1 && p.in.channels <= 1024 &&
           p.in.channels >= fewest_channels && p.filters >= fewest_channels && p.out().height > 1 &&
           p.out().width > 1;
  }

  explicit byte_winograd(const convolution_problem& p)
      : p_(p),
        sample_(p),
        out_(p.out()),
        filter_blocks_(static_cast<int>(channel_blocks(p.filters, V))),
        tile_rows_((out_.height + 1) / 2),
        tile_columns_((out_.width + 1) / 2) {}

  [[nodiscard]] std::size_t packed_size() const {
    return static_cast<std::size_t>(filter_blocks_) *
           (static_cast<std::size_t>(block_size()) + V * sizeof(std::int32_t));
  }
  void pack(const std::int8_t* weights,   // (K, C, 3, 3)
            std::int8_t* packed) const {  // (K/V, 16, C/2, V, 2) of 16 bits, (K): filters' sums
    std::fill(packed, packed + packed_size(), std::int8_t{0});
    for (int k = 0; k < p_.filters; ++k) {
      std::int32_t sum = 0;
      for (int c = 0; c < p_.in.channels; ++c, weights += 9) {
        std::int16_t transformed[positions];
        transform_weights(weights, transformed);
        for (int t = 0; t < positions; ++t)
          std::memcpy(packed + k / V * block_size() + t * position_size() +
                          ((c / 2 * V + k % V) * 2 + c % 2) * 2,
                      &transformed[t], sizeof transformed[t]);
        for (int tap = 0; tap < 9; ++tap) sum += weights[tap];
      }
      std::memcpy(packed + filter_blocks_ * block_size() + std::ptrdiff_t{k} * 4, &sum, 4);
    }
  }

  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  void run(int samples,
           const In* x,  // (N, C/V, H, W, V)
           const affine_quantizer<float>& k,
           const std::int8_t* packed,  // as pack writes it
           const float* scales,        // (K)
           Out* y,                     // (N, K/V, H', W', V)
           cpu::stream s) const {
    const std::size_t x_size = sample_size(p_.in, V), y_size = sample_size(out_, V);
    device::parallel_chunks(
        s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
          thread_local thread_memory memory;
          const filter_terms terms = memory.terms.template of<Out>(
              k, static_cast<std::size_t>(p_.filters), static_cast<std::size_t>(filter_blocks_) * V,
              packed + filter_blocks_ * block_size(), scales);
          run_samples(
              memory.kernel, last - first, [&](std::size_t n) { return x + (first + n) * x_size; },
              byte_quantizer<V>(k), k.zero_point, packed, terms.initial,
              [&](std::size_t n, const chunk& c) {
                store_sums(c, terms.scales, y + (first + n) * y_size);
              });
        });
  }

  /// As byte_correlation_by::run_samples; parts are of whole rows of tiles.
  template <class X, class ToBytes, class Consume>
  void run_samples(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point,
                   const std::int8_t* packed,    // as pack writes it
                   const std::int32_t* initial,  // (K/V, V): of the sums
                   const Consume& consume, core::equal_part part = {}) const {
    const byte_region r = region_of(part);
    if (r.empty()) return;
    const buffers to = buffers_in(memory);
    const std::size_t at_once = samples_at_once(r.rows());
    for (std::size_t n = 0, next; n < samples; n = next) {
      next = std::min(n + at_once, samples);
      for (int i = r.first_row, end; i < r.last_row; i = end) {
        end = std::min(i + rows_at_once(), r.last_row);
        const int tiles = (end - i) * tile_columns_,  // of a sample
            all = static_cast<int>(next - n) * tiles;
        for (std::size_t m = n; m < next; ++m) {
          const typename decltype(sample_)::row_range read{2 * i,
                                                           std::min(2 * end + 2, sample_.rows)};
          std::uint8_t* const bytes = sample_.padded(memory.bytes, zero_point, 1, read);
          sample_.quantize(x_of(m), to_bytes, bytes, read);
          transform_rows(bytes, i, end, static_cast<int>(m - n) * tiles, all, to);
        }
        for (int f = r.first_block; f < r.last_block; f += 2) {
          multiply(f, all, packed, initial, to);
          for (std::size_t m = n; m < next; ++m)
            consume(m, sum_tiles(f, i, end, static_cast<int>(m - n) * tiles, all, to));
        }
      }
    }
  }

  /// Makes `memory` as large as run_samples of any number of samples needs.
  void reserve(byte_scratch& memory, std::size_t /*samples*/) const {
    memory.bytes.reserve(sample_.padded_size(1));
    static_cast<void>(buffers_in(memory));
  }

 private:
  static constexpr int positions = 16, panel = pair_tile_pixels, fewest_channels = 16,
                       most_tiles = 96;
  static constexpr std::size_t cached_bytes = 262144;  // transformed, in the second-level cache

  /// Of the tiles that are multiplied at once.
  struct buffers {
    std::int16_t* bytes;     // (16, tiles / 6, C/V, 6, V): in panels
    std::int32_t* products;  // (16, 2, tiles, V)
    std::int32_t* sums;      // (2, pixels, V)
  };
  struct thread_memory {
    byte_scratch kernel;
    filter_terms_memory terms;
  };

  [[nodiscard]] int tiles_at_once() const {
    const std::size_t size =
        positions * sizeof(std::int16_t) * static_cast<std::size_t>(channels());
    return std::min(most_tiles, static_cast<int>(cached_bytes / size));
  }
  [[nodiscard]] int rows_at_once() const {
    return std::clamp(tiles_at_once() / tile_columns_, 1, tile_rows_);
  }
  /// So many, if so many rows of tiles of each are computed.
  [[nodiscard]] std::size_t samples_at_once(int rows) const {
    return static_cast<std::size_t>(std::max(1, tiles_at_once() / (rows * tile_columns_)));
  }
  [[nodiscard]] buffers buffers_in(byte_scratch& memory) const {
    const int tiles = std::max(tiles_at_once(), rows_at_once() * tile_columns_);
    const auto numbers = [](std::ptrdiff_t n) { return static_cast<std::size_t>(n); };
    return {reinterpret_cast<std::int16_t*>(
                memory.shorts.reserve(numbers(positions * panels(tiles) * panel_size()))),
            memory.products.reserve(numbers(positions * 2 * product_block(tiles))),
            memory.sums.reserve(numbers(std::ptrdiff_t{8} * tiles * V))};
  }
  [[nodiscard]] int channels() const { return sample_.blocks * V; }
  [[nodiscard]] std::ptrdiff_t panel_size() const { return std::ptrdiff_t{panel} * channels(); }
  static constexpr int panels(int tiles) { return (tiles + panel - 1) / panel; }
  /// Numbers of a position's products of one block of filters.
  static constexpr std::ptrdiff_t product_block(int tiles) {
    return std::ptrdiff_t{panels(tiles)} * panel * V;
  }
  /// Bytes of packed weights: of a position of two blocks' tiles; of a block of filters.
  [[nodiscard]] std::ptrdiff_t position_size() const { return std::ptrdiff_t{2 * V} * channels(); }
  [[nodiscard]] std::ptrdiff_t block_size() const { return positions * position_size(); }

  /// Of filters and rows of tiles.
  [[nodiscard]] byte_region region_of(core::equal_part part) const {
    const auto pair_size = static_cast<std::size_t>(2 * block_size());
    return byte_regions{filter_blocks_, tile_rows_,
                        pair_size * static_cast<std::size_t>(tile_columns_), pair_size,
                        sample_.size() / static_cast<std::size_t>(tile_rows_)}
        .of(part);
  }

  /// (4, 4) <- 2 G g (2 G)^T
  static void transform_weights(const std::int8_t* g, std::int16_t* to) {
    int rows[4][3];
    const auto transform = [](int a, int b, int c, auto&& write) {
      write(0, 2 * a), write(1, a + b + c), write(2, a - b + c), write(3, 2 * c);
    };
    for (int s = 0; s < 3; ++s)
      transform(g[s], g[3 + s], g[6 + s], [&](int i, int sum) { rows[i][s] = sum; });
    for (int i = 0; i < 4; ++i)
      transform(rows[i][0], rows[i][1], rows[i][2],
                [&](int j, int sum) { to[4 * i + j] = static_cast<std::int16_t>(sum); });
  }

  /// B^T x B of the tiles in rows i .. end-1 of a sample, which are `all`'s from tile `first` on.
  void transform_rows(const std::uint8_t* x,  // (C/V, rows, columns, V)
                      int i, int end, int first, int all, const buffers& to) const {
    const std::ptrdiff_t position = panels(all) * panel_size();
    for (int b = 0; b < sample_.blocks; ++b, x += sample_.plane())
      for (int h = i, tile = first; h < end; ++h) {
        const std::uint8_t* rows[4];  // those below the image are of tiles' pixels that are not
        for (int r = 0; r < 4; ++r)
          rows[r] = x + std::min(2 * h + r, sample_.rows - 1) * sample_.row();
        for (int j = 0; j < tile_columns_; ++j, ++tile)
          transform_tile(
              rows, std::ptrdiff_t{2 * j} * V,
              to.bytes + tile / panel * panel_size() + std::ptrdiff_t{b * panel + tile % panel} * V,
              position);
      }
  }
  [[gnu::always_inline]] static void transform_tile(const std::uint8_t* const (&rows)[4],
                                                    std::ptrdiff_t at, std::int16_t* to,
                                                    std::ptrdiff_t position) {
    shorts x[4][4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      shorts pixel[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r)
        pixel[r] = __builtin_convertvector(load<std::uint8_t, V>(rows[r] + at + s * V), shorts);
      x[0][s] = pixel[0] - pixel[2];
      x[1][s] = pixel[1] + pixel[2];
      x[2][s] = pixel[2] - pixel[1];
      x[3][s] = pixel[1] - pixel[3];
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r, to += 4 * position) {
      store<std::int16_t, V>(to, x[r][0] - x[r][2]);
      store<std::int16_t, V>(to + position, x[r][1] + x[r][2]);
      store<std::int16_t, V>(to + 2 * position, x[r][2] - x[r][1]);
      store<std::int16_t, V>(to + 3 * position, x[r][1] - x[r][3]);
    }
  }

  /// The products of two blocks of filters from f on, summed over channels. The second position of
  /// the second row adds to all four pixels of a tile: it begins with four times their initial sum.
  void multiply(int f, int tiles, const std::int8_t* packed, const std::int32_t* initial,
                const buffers& to) const {
    const bool two_blocks = f + 1 < filter_blocks_;
    std::int32_t zeros[std::size_t{2 * V}] = {}, four_times[std::size_t{2 * V}] = {};
    for (int v = 0; v < (two_blocks ? 2 * V : V); ++v) four_times[v] = 4 * initial[f * V + v];
    byte_tile<std::int32_t> at{};
    at.w_block = block_size();
    at.y_block = product_block(tiles);
    at.blocks = sample_.blocks;
    for (int k = 0; k < positions; ++k) {
      at.x = byte_address(to.bytes + k * panels(tiles) * panel_size());
      at.w = packed + f * block_size() + k * position_size();
      at.initial = k == 5 ? four_times : zeros;
      at.y = to.products + k * 2 * at.y_block;
      pair_panels(at, two_blocks, panels(tiles));
    }
  }

  /// The sums at the pixels of the tiles in rows i .. end-1, which are `all`'s from `first` on.
  chunk sum_tiles(int f, int i, int end, int first, int all, const buffers& to) const {
    const int height = std::min(2 * end, out_.height) - 2 * i, width = out_.width,
              blocks = std::min(2, filter_blocks_ - f);
    const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    const std::ptrdiff_t row = std::ptrdiff_t{width} * V;
    for (int b = 0; b < blocks; ++b) {
      const std::int32_t* m = to.products + b * product_block(all) + std::ptrdiff_t{first} * V;
      std::int32_t* y = to.sums + static_cast<std::size_t>(b) * pixels * V;
      for (int h = 0; h < height; h += 2, y += 2 * row)
        for (int w = 0; w < width; w += 2, m += V) {
          wide sum[2][2];
          sum_tile(m, 2 * product_block(all), sum);
          std::int32_t* const pixel = y + std::ptrdiff_t{w} * V;
          const bool right = w + 1 < width;
          for (int r = 0; r < std::min(2, height - h); ++r) {
            store<std::int32_t, V>(pixel + r * row, sum[r][0]);
            if (right) store<std::int32_t, V>(pixel + r * row + V, sum[r][1]);
          }
        }
    }
    return {f, blocks, static_cast<std::size_t>(2 * i * width), pixels, to.sums, pixels};
  }
  /// A^T m A / 4 of one tile.
  [[gnu::always_inline]] static void sum_tile(const std::int32_t* m, std::ptrdiff_t position,
                                              wide (&sum)[2][2]) {
    modular rows[2][4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      const auto product = [&](int r) {
        return load<std::uint32_t, V>(reinterpret_cast<const std::uint32_t*>(m) +
                                      (4 * r + s) * position);
      };
      const modular middle = product(1), below = product(2);
      rows[0][s] = product(0) + middle + below;
      rows[1][s] = middle - below - product(3);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      sum[r][0] = reinterpret_cast<wide>(rows[r][0] + rows[r][1] + rows[r][2]) >> 2;
      sum[r][1] = reinterpret_cast<wide>(rows[r][1] - rows[r][2] - rows[r][3]) >> 2;
    }
  }

  template <ByteConvolutionOutput Out>
  void store_sums(const chunk& c, const float* scales, Out* y) const {  // (K/V, H', W', V)
    const std::int32_t* sums = c.sums;
    for (int b = c.filter_block; b < c.filter_block + c.blocks; ++b) {
      Out* const to = y + (static_cast<std::size_t>(b) * out_.pixels() + c.first) * V;
      for (std::size_t p = 0; p < c.pixels; ++p, sums += V) {
        const wide sum = load<std::int32_t, V>(sums);
        if constexpr (std::same_as<Out, float>)
          store<float, V>(to + p * V, load<float, V>(scales + b * V) *
                                          __builtin_convertvector(sum, vec<float, V>));
        else
          store<std::int32_t, V>(to + p * V, sum);
      }
    }
  }

  convolution_problem p_;
  byte_sample<V> sample_;
  extent out_;
  int filter_blocks_, tile_rows_, tile_columns_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
