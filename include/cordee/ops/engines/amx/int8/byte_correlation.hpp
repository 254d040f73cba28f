// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `amx`'s convolution of bytes (ops/convolution_bytes.hpp), by tiles. It has the functions
// of engine `direct`'s (ops/engines/direct/int8/byte_correlation.hpp), and the same sums.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/equal_part.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/engines/amx/int8/byte_planes.hpp>
#include <cordee/ops/engines/amx/int8/byte_tiles.hpp>
#include <cordee/ops/engines/amx/int8/deferred_epilogue.hpp>
#include <cordee/ops/engines/amx/int8/packed_byte_tiles.hpp>
#include <cordee/ops/engines/amx/int8/pixel_sequence.hpp>
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
      : planes_(p), p_(planes_.problem), out_(p_.out()), packed_(planes_) {}

  [[nodiscard]] const extent& in() const { return planes_.strided.in; }
  [[nodiscard]] int block() const { return planes_.block; }  // channels to a block of the input
  [[nodiscard]] const byte_planes<V>& planes() const { return planes_; }

  [[nodiscard]] std::size_t packed_size() const { return packed_.size(); }
  void pack(const std::int8_t* weights,   // (K, C, R, S)
            std::int8_t* packed) const {  // (K/2V, C/B, R, window tiles, 2, 16, V, 4), (K)
    packed_.pack(planes_, weights, packed);
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
          const std::size_t padded = static_cast<std::size_t>(packed_.filter_blocks) * V;
          std::int32_t* const initial = memory.initial.reserve(padded);  // (K/V, V)
          float* const all_scales = memory.scales.reserve(padded);       // (K/V, V)
          for (std::size_t f = 0; f < padded; ++f) {
            initial[f] = -k.zero_point * packed_.sum_of(packed, f);
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
    immediate_epilogue<Consume> epilogue{consume};
    run_region(memory, samples, x_of, to_bytes, zero_point, packed, initial, epilogue,
               region_of(part));
  }

  /// As run_samples, but an epilogue makes y of the sums, as in engine `direct`'s, while the next
  /// products are computed.
  static constexpr bool fuses = V == 16;
  /// Whether run_fused is faster if all sums begin with zero.
  [[nodiscard]] static constexpr bool prefers_zeros() { return true; }
  template <class X, class ToBytes, class Y, class EpilogueOf>
  void run_fused(byte_scratch& memory, std::size_t samples, const X& x_of, const ToBytes& to_bytes,
                 int zero_point, const std::int8_t* packed,
                 const std::int32_t* initial,  // (K/V, V): of the sums; null: zeros
                 const Y& y_of, const EpilogueOf& epilogue_of, const byte_region& r) const {
    deferred_epilogue<V, Y, EpilogueOf> epilogue(y_of, epilogue_of, out_.pixels());
    run_region(memory, samples, x_of, to_bytes, zero_point, packed, initial, epilogue, r);
  }
  [[nodiscard]] byte_region region_of(core::equal_part part) const {
    const auto pair = static_cast<std::size_t>(packed_.pair_size);
    return byte_regions{packed_.filter_blocks, out_.height,
                        pair * static_cast<std::size_t>(out_.width), pair,
                        planes_.size(out_.height) / static_cast<std::size_t>(out_.height)}
        .of(part);
  }
  /// All filters in rows of y: `row_pixels` pixels each.
  [[nodiscard]] int rows() const { return out_.height; }
  [[nodiscard]] int row_pixels() const { return out_.width; }
  [[nodiscard]] byte_region rows_region(int first, int last) const {
    return {0, packed_.filter_blocks, first, last};
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
  /// The sums of one kernel: few, so that the next products overlap with what consumes these.
  static constexpr int chunk_pixels = 2 * tile_rows;
  /// Bytes of copies at a time, for an L2 cache of 2 MiB: of several samples, or of rows of one.
  static constexpr std::size_t cached_bytes = 1048576, band_bytes = 262144;

  /// Rows of samples that are copied at once.
  struct band {
    std::size_t first_sample, samples;
    int first_row, rows;
    std::uint8_t* bytes;
    std::ptrdiff_t sample, group;  // from one to the next, in bytes
    std::int32_t* sums;            // (2, pixels of a chunk, V)
  };

  /// And a number behind them, which epilogues read (infer/cpu/rescale_lanes.hpp).
  static constexpr std::size_t sums_size() { return 2 * chunk_pixels * std::size_t{V} + 1; }
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
  /// With several samples only if windows are single pixels.
  [[nodiscard]] pixel_sequence sequence_of(int first_row, int rows, std::size_t samples) const {
    return {out_.width, planes_.pitch, first_row, rows, static_cast<std::ptrdiff_t>(samples)};
  }
  template <class X, class ToBytes, class Epilogue>
  void run_region(byte_scratch& memory, std::size_t samples, const X& x_of, const ToBytes& to_bytes,
                  int zero_point, const std::int8_t* packed, const std::int32_t* initial,
                  Epilogue& epilogue, const byte_region& r) const {
    if (r.empty() || samples == 0) return;
    const std::size_t at_once = samples_at_once(samples);
    const int most_rows = at_once > 1 ? r.rows() : std::min(r.rows(), band_rows());
    const bool together = planes_.pointwise();
    const auto count_of = [&](std::size_t first) { return std::min(at_once, samples - first); };
    Unit unit(byte_tile_shapes<V>(static_cast<int>(std::min<std::ptrdiff_t>(
        tile_rows, sequence_of(0, most_rows, together ? count_of(0) : 1).size()))));
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
          correlate(unit, b, f, f + 2 < r.last_block, packed, initial, epilogue);
      }
    }
    epilogue.finish();
  }
  template <class Epilogue>
  void correlate(Unit& unit, const band& b, int f, bool further, const std::int8_t* packed,
                 const std::int32_t* initial, Epilogue& epilogue) const {
    const bool together = planes_.pointwise(), two = f + 1 < packed_.filter_blocks;
    const pixel_sequence sequence = sequence_of(b.first_row, b.rows, together ? b.samples : 1);
    const std::ptrdiff_t pixels = sequence.size();
    byte_tile_memory at{.x_step = planes_.step(),
                        .x_group = b.group,
                        .x_phase = planes_.phase(b.rows),
                        .x_row = planes_.row(),
                        .w = packed + f / 2 * packed_.pair_size,
                        .initial = initial == nullptr ? nullptr : initial + f * V,
                        .sums = b.sums,
                        .sums_block = chunk_pixels * V,
                        .groups = planes_.groups,
                        .phases = planes_.phases,
                        .window_rows = planes_.window_rows,
                        .window_tiles = planes_.window_tiles()};
    if (further) {
      const std::ptrdiff_t kernels = (pixels + chunk_pixels - 1) / chunk_pixels *
                                     static_cast<std::ptrdiff_t>(together ? 1 : b.samples),
                           lines = 2 * packed_.tile / 64;
      at.prefetch = reinterpret_cast<const char*>(at.w + packed_.pair_size);
      at.prefetch_lines = static_cast<int>((lines + kernels - 1) / kernels);
    }
    const char* const end = at.prefetch == nullptr ? nullptr : at.prefetch + packed_.pair_size;
    for (std::size_t n = 0; n < (together ? 1 : b.samples); ++n) {
      const std::uint8_t* const x = b.bytes + static_cast<std::ptrdiff_t>(n) * b.sample;
      for (std::ptrdiff_t first = 0; first < pixels; first += chunk_pixels) {
        const std::ptrdiff_t last = std::min<std::ptrdiff_t>(pixels, first + chunk_pixels);
        if (at.prefetch >= end) at.prefetch_lines = 0;
        at.x = x + first * at.x_step;
        const bool two_tiles = first + tile_rows < last;
        if (two)
          two_tiles ? sum_byte_tiles<V, 2, 2>(unit, at, epilogue)
                    : sum_byte_tiles<V, 1, 2>(unit, at, epilogue);
        else
          two_tiles ? sum_byte_tiles<V, 2, 1>(unit, at, epilogue)
                    : sum_byte_tiles<V, 1, 1>(unit, at, epilogue);
        for (int block = 0; block < (two ? 2 : 1); ++block)
          sequence.for_each_run(
              first, last,
              [&](std::size_t sample, std::size_t pixel, std::ptrdiff_t place, std::size_t count) {
                epilogue.add(
                    b.first_sample + n + sample,
                    chunk{f + block, 1, pixel, count,
                          b.sums + (std::ptrdiff_t{block} * chunk_pixels + place - first) * V,
                          last < pixels ? std::size_t{chunk_pixels} : 0});
              });
      }
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
  packed_byte_tiles<V> packed_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
