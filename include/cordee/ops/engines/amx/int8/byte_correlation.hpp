// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `amx`'s convolution of bytes (ops/convolution_bytes.hpp), by tiles. It has the functions
// of engine `direct`'s (ops/engines/direct/int8/byte_correlation.hpp), and the same sums.
//
// The packed weights are (K/2V, C/B, R, window tiles, 2, 16, V, 4): two tiles of V filters for each
// 64 adjacent bytes of a window row (byte_planes.hpp), with zeros where a window row or the filters
// end. They are followed by (K), the sum of each filter: minus the zero point times it is the
// initial value of that filter's sums.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cordee/core/equal_part.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/engines/amx/int8/byte_planes.hpp>
#include <cordee/ops/engines/amx/int8/byte_tiles.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/int8/byte_correlation.hpp>
#include <cordee/ops/engines/direct/int8/byte_region.hpp>
#include <cordee/ops/engines/direct/int8/byte_sample.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V, TileUnit Unit>
class byte_correlation_by_tiles {
 public:
  using chunk = byte_sums_chunk;

  explicit byte_correlation_by_tiles(const convolution_problem& p)
      : planes_(p),
        p_(planes_.problem),
        out_(p_.out()),
        filter_blocks_(static_cast<int>(channel_blocks(p_.filters, V))),
        pair_size_(std::ptrdiff_t{2} * weight_tile * planes_.groups * planes_.window_rows *
                   planes_.window_tiles()) {}

  [[nodiscard]] const extent& in() const { return planes_.strided.in; }
  [[nodiscard]] int block() const { return planes_.block; }  // channels to a block of the input
  [[nodiscard]] const byte_planes<V>& planes() const { return planes_; }

  [[nodiscard]] std::size_t packed_size() const {
    return static_cast<std::size_t>(tiles_size()) +
           static_cast<std::size_t>(filter_blocks_) * V * sizeof(std::int32_t);
  }
  void pack(const std::int8_t* weights,   // (K, C, R, S)
            std::int8_t* packed) const {  // (K/2V, C/B, R, window tiles, 2, 16, V, 4), (K)
    std::fill(packed, packed + packed_size(), std::int8_t{0});
    for (int k = 0; k < p_.filters; ++k) {
      std::int8_t* const tiles = packed + k / (2 * V) * pair_size_ + k / V % 2 * weight_tile;
      std::int32_t sum = 0;
      for (int c = 0; c < p_.in.channels; ++c)
        for (int tap = 0; tap < p_.window * p_.window; ++tap, ++weights) {
          const auto [row, byte] = planes_.place_of(c, tap / p_.window, tap % p_.window);
          const std::ptrdiff_t tile =
              std::ptrdiff_t{row} * planes_.window_tiles() + byte / tile_bytes;
          const int at = byte % tile_bytes;
          tiles[2 * tile * weight_tile + (at / 4 * V + k % V) * 4 + at % 4] = *weights;
          sum += *weights;
        }
      std::memcpy(packed + tiles_size() + std::ptrdiff_t{k} * 4, &sum, 4);
    }
  }

  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  void run(int samples,
           const In* x,  // (N, C/B, H, W, B)
           const affine_quantizer<float>& k, const std::int8_t* packed,
           const float* scales,  // (K)
           Out* y,               // (N, K/V, H', W', V), or (N, H', W', K) of few filters
           cpu::stream s) const {
    const std::size_t x_size = sample_size(in(), block()), pixels = out_.pixels(),
                      filters = static_cast<std::size_t>(p_.filters),
                      y_block = static_cast<std::size_t>(channel_block_size<V>(p_.filters)),
                      y_size = sample_size(out_, static_cast<int>(y_block));
    device::parallel_chunks(
        s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
          thread_local struct {
            byte_scratch kernel;
            scratch<std::int32_t> initial;
            scratch<float> scales;
          } memory;
          const std::size_t padded = static_cast<std::size_t>(filter_blocks_) * V;
          std::int32_t* const initial = memory.initial.reserve(padded);  // (K/V, V)
          float* const all_scales = memory.scales.reserve(padded);       // (K/V, V)
          for (std::size_t f = 0; f < padded; ++f) {
            std::int32_t sum;
            std::memcpy(&sum, packed + tiles_size() + 4 * static_cast<std::ptrdiff_t>(f), 4);
            initial[f] = -k.zero_point * sum;
            all_scales[f] = std::same_as<Out, float> && f < filters ? k.scale * scales[f] : 0;
          }
          run_samples(
              memory.kernel, last - first, [&](std::size_t n) { return x + (first + n) * x_size; },
              byte_quantizer<V>(k), k.zero_point, packed, initial,
              [&](std::size_t n, const chunk& sums) {
                const auto f = static_cast<std::size_t>(sums.filter_block);
                Out* to = y + (first + n) * y_size + (f * pixels + sums.first) * y_block;
                const std::int32_t* sum = sums.sums;
                if (y_block != V) {
                  for (std::size_t p = 0; p < sums.pixels; ++p, sum += V)
                    for (std::size_t v = 0; v < filters; ++v)
                      *to++ = scaled<Out>(sum[v], all_scales[v]);
                  return;
                }
                for (std::size_t p = 0; p < sums.pixels; ++p, sum += V, to += V)
                  store_scaled(sum, all_scales + f * V, to);
              });
        });
  }

  /// A part of each sample on this thread, as engine `direct`'s; a chunk is of one block of
  /// filters. Allocates nothing if `memory` has been reserved for it.
  template <class X, class ToBytes, class Consume>
  void run_samples(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point, const std::int8_t* packed,
                   const std::int32_t* initial,  // (K/V, V): of the sums
                   const Consume& consume, core::equal_part part = {}) const {
    const byte_region r = region_of(part);
    if (r.empty() || samples == 0) return;
    const std::size_t at_once = samples_at_once(samples);
    const int most_rows = at_once > 1 ? r.rows() : std::min(r.rows(), band_rows());
    const bool together = planes_.pointwise();
    const auto count_of = [&](std::size_t first) { return std::min(at_once, samples - first); };
    Unit unit(byte_tile_shapes<V>(static_cast<int>(
        std::min<std::ptrdiff_t>(tile_rows, pixels_of(most_rows, together ? count_of(0) : 1)))));
    band b{};
    b.sums = memory.sums.reserve(sums_size());
    for (b.first_sample = 0; b.first_sample < samples; b.first_sample += b.samples) {
      b.samples = count_of(b.first_sample);
      for (b.first_row = r.first_row; b.first_row < r.last_row; b.first_row += b.rows) {
        b.rows = std::min(most_rows, r.last_row - b.first_row);
        const std::size_t plane = static_cast<std::size_t>(planes_.plane(b.rows)),
                          size = planes_.size(b.rows);
        b.bytes = memory.bytes.reserve(b.samples * size + planes_.tail());
        b.sample = static_cast<std::ptrdiff_t>(together ? plane : size);
        b.group = static_cast<std::ptrdiff_t>(together ? b.samples * plane : plane);
        for (std::size_t n = 0; n < b.samples; ++n)
          planes_.copy(x_of(b.first_sample + n), to_bytes, zero_point, b.first_row, b.rows,
                       b.bytes + static_cast<std::ptrdiff_t>(n) * b.sample, b.group,
                       b.bytes + b.samples * size);
        for (int f = r.first_block; f < r.last_block; f += 2)
          correlate(unit, b, f, f + 2 < r.last_block, packed, initial, consume);
      }
    }
  }

  /// Makes `memory` as large as run_samples of up to so many samples of any input needs.
  void reserve(byte_scratch& memory, std::size_t samples) const {
    memory.sums.reserve(sums_size());
    const std::size_t at_once = samples_at_once(samples);
    memory.bytes.reserve(std::max(at_once * planes_.size(at_once > 1 ? out_.height : band_rows()),
                                  planes_.size(band_rows())) +
                         planes_.tail());
  }

 private:
  static constexpr std::ptrdiff_t weight_tile = std::ptrdiff_t{tile_rows} * 4 * V;
  /// The sums of one kernel: few, so that the next products overlap with what consumes these.
  static constexpr int chunk_pixels = 2 * tile_rows;
  /// Of copies, in a second-level cache of 2 MiB: of several samples, and of rows of one.
  static constexpr std::size_t cached_bytes = 1048576, band_bytes = 262144;

  /// Rows of samples that are copied at once.
  struct band {
    std::size_t first_sample, samples;
    int first_row, rows;
    std::uint8_t* bytes;
    std::ptrdiff_t sample, group;  // from one to the next, in bytes
    std::int32_t* sums;            // (2, pixels of a chunk, V)
  };

  [[nodiscard]] std::ptrdiff_t tiles_size() const { return (filter_blocks_ + 1) / 2 * pair_size_; }
  static constexpr std::size_t sums_size() { return 2 * chunk_pixels * std::size_t{V}; }
  [[nodiscard]] std::size_t samples_at_once(std::size_t samples) const {
    return std::clamp(cached_bytes / planes_.size(out_.height), std::size_t{1},
                      std::max(samples, std::size_t{1}));
  }
  [[nodiscard]] int band_rows() const {
    const std::size_t one = planes_.size(1), further = planes_.size(2) - one;
    if (one >= band_bytes) return 1;
    return static_cast<int>(
        std::min(1 + (band_bytes - one) / further, static_cast<std::size_t>(out_.height)));
  }
  /// Of the sequence that has the output's pixels of so many rows of so many samples.
  [[nodiscard]] std::ptrdiff_t pixels_of(int rows, std::size_t samples) const {
    return static_cast<std::ptrdiff_t>(samples) * rows * planes_.pitch -
           (planes_.pitch - out_.width);
  }
  [[nodiscard]] byte_region region_of(core::equal_part part) const {
    const auto pair = static_cast<std::size_t>(pair_size_);
    return byte_regions{filter_blocks_, out_.height, pair * static_cast<std::size_t>(out_.width),
                        pair, planes_.size(out_.height) / static_cast<std::size_t>(out_.height)}
        .of(part);
  }

  template <class Consume>
  void correlate(Unit& unit, const band& b, int f, bool further, const std::int8_t* packed,
                 const std::int32_t* initial, const Consume& consume) const {
    const bool together = planes_.pointwise(), two = f + 1 < filter_blocks_;
    const std::ptrdiff_t pixels = pixels_of(b.rows, together ? b.samples : 1);
    byte_tile_memory at{.x_step = planes_.step(),
                        .x_group = b.group,
                        .x_phase = planes_.phase(b.rows),
                        .x_row = planes_.row(),
                        .w = packed + f / 2 * pair_size_,
                        .initial = initial + f * V,
                        .sums = b.sums,
                        .sums_block = chunk_pixels * V,
                        .groups = planes_.groups,
                        .phases = planes_.phases,
                        .window_rows = planes_.window_rows,
                        .window_tiles = planes_.window_tiles()};
    if (further) {
      const std::ptrdiff_t kernels = (pixels + chunk_pixels - 1) / chunk_pixels *
                                     static_cast<std::ptrdiff_t>(together ? 1 : b.samples),
                           lines = 2 * weight_tile / 64;
      at.prefetch = reinterpret_cast<const char*>(at.w + pair_size_);
      at.prefetch_lines = static_cast<int>((lines + kernels - 1) / kernels);
    }
    const char* const end = at.prefetch == nullptr ? nullptr : at.prefetch + pair_size_;
    for (std::size_t n = 0; n < (together ? 1 : b.samples); ++n) {
      const std::uint8_t* const x = b.bytes + static_cast<std::ptrdiff_t>(n) * b.sample;
      for (std::ptrdiff_t first = 0; first < pixels; first += chunk_pixels) {
        const std::ptrdiff_t last = std::min<std::ptrdiff_t>(pixels, first + chunk_pixels);
        if (at.prefetch >= end) at.prefetch_lines = 0;
        at.x = x + first * at.x_step;
        const bool two_tiles = first + tile_rows < last;
        if (two)
          two_tiles ? sum_byte_tiles<V, 2, 2>(unit, at) : sum_byte_tiles<V, 1, 2>(unit, at);
        else
          two_tiles ? sum_byte_tiles<V, 2, 1>(unit, at) : sum_byte_tiles<V, 1, 1>(unit, at);
        for (int block = 0; block < (two ? 2 : 1); ++block)
          consume_pixels(b, n, f + block, first, last, last < pixels,
                         b.sums + std::ptrdiff_t{block} * chunk_pixels * V, consume);
      }
    }
  }
  /// Calls consume for the output's pixels among first .. last-1 of the sequence.
  template <class Consume>
  void consume_pixels(const band& b, std::size_t n, int f, std::ptrdiff_t first,
                      std::ptrdiff_t last, bool more, const std::int32_t* sums,
                      const Consume& consume) const {
    // Without gaps a run is all that belongs to a sample, else to a row.
    const bool together = planes_.pointwise();
    const std::ptrdiff_t width = out_.width, run = together ? b.rows * width : width,
                         pitch = together ? run : planes_.pitch;
    for (std::ptrdiff_t p = first; p < last;) {
      const std::ptrdiff_t i = p / pitch, j = p % pitch, next = std::min((i + 1) * pitch, last);
      if (j < run) {
        const std::ptrdiff_t of_sample = b.first_row * width + (together ? 0 : i * width) + j;
        consume(b.first_sample + n + (together ? static_cast<std::size_t>(i) : 0),
                chunk{f, 1, static_cast<std::size_t>(of_sample),
                      static_cast<std::size_t>(std::min(next, i * pitch + run) - p),
                      sums + (p - first) * V, more ? std::size_t{chunk_pixels} : 0});
      }
      p = next;
    }
  }

  template <class Out>
  static Out scaled(std::int32_t sum, float scale) {
    if constexpr (std::same_as<Out, float>)
      return scale * static_cast<float>(sum);
    else
      return sum;
  }
  template <class Out>
  [[gnu::always_inline]] static void store_scaled(const std::int32_t* sum, const float* scales,
                                                  Out* to) {
    const auto sums = load<std::int32_t, V>(sum);
    if constexpr (std::same_as<Out, float>)
      store<float, V>(to, load<float, V>(scales) * __builtin_convertvector(sums, vec<float, V>));
    else
      store<std::int32_t, V>(to, sums);
  }

  byte_planes<V> planes_;
  convolution_problem p_;  // the planes'
  extent out_;
  int filter_blocks_;
  std::ptrdiff_t pair_size_;  // of the tiles of two blocks of filters
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
