// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct`'s convolution of bytes by one kind of products (byte_pair_tile.hpp).
//
// The packed weights are (K/V, C/B, R, S B/G, V, G) for products of G numbers, with zeros where S B
// is no multiple of G (byte_matrix_tile.hpp: eight bytes), followed by (K), the sum of each filter:
// minus the zero point times it is the initial value of that filter's sums. A sample is quantised
// into padded rows of bytes, or of 16 bits, which stay in the second-level cache; so every window,
// stride and padding is a loop over window rows of S B adjacent numbers.
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
#include <cordee/ops/engines/direct/int8/byte_matrix_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_pair_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_region.hpp>
#include <cordee/ops/engines/direct/int8/byte_rows.hpp>
#include <cordee/ops/engines/direct/int8/byte_sample.hpp>
#include <cordee/ops/engines/direct/int8/byte_terms.hpp>
#include <cordee/ops/engines/direct/int8/byte_tile.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V, class Products>
class byte_correlation_by {
  using number = typename Products::number;
  using packed_weight = typename Products::weight;
  static constexpr bool pairs = Products::panel > 0;  // the tile of six pixels
  static constexpr bool matrices = requires { Products::native; };
  static constexpr int blocks_at_once = matrices ? byte_blocks_at_once<V> : 1;
  static constexpr int step_bytes = matrices ? 8 : 4;  // of a filter's weights
  static constexpr int group =                         // of a window row's numbers in a step
      step_bytes / blocks_at_once / static_cast<int>(sizeof(number));

 public:
  using chunk = byte_sums_chunk;

  explicit byte_correlation_by(const convolution_problem& p)
      : sample_(p),
        p_(sample_.problem),
        out_(p_.out()),
        block_(sample_.block),
        blocks_(sample_.blocks),
        steps_((p_.window * block_ + group - 1) / group),
        filter_blocks_(static_cast<int>(channel_blocks(p_.filters, V))) {}

  [[nodiscard]] const extent& in() const { return sample_.strided.in; }
  [[nodiscard]] int block() const { return block_; }  // channels to a block of the input

  [[nodiscard]] std::size_t packed_size() const {
    return static_cast<std::size_t>(filter_blocks_) *
           (static_cast<std::size_t>(block_size()) + V * sizeof(std::int32_t));
  }
  /// Groups of numbers in a window row of a block of channels.
  [[nodiscard]] int steps() const { return steps_; }
  void pack(const std::int8_t* weights,   // (K, C, R, S)
            std::int8_t* packed) const {  // (K/V, C/B, R, steps, V, 4 bytes), (K)
    std::fill(packed, packed + packed_size(), std::int8_t{0});
    for (int k = 0; k < p_.filters; ++k) {
      std::int32_t sum = 0;
      for (int c = 0; c < p_.in.channels; ++c)
        for (int tap = 0; tap < p_.window * p_.window; ++tap, ++weights) {
          const int at = tap % p_.window * block_ + c % block_;  // in a window row
          const int block = c / block_;
          const std::ptrdiff_t step =
              (std::ptrdiff_t{block / blocks_at_once} * p_.window + tap / p_.window) * steps_ +
              at / group;
          const auto weight = static_cast<packed_weight>(*weights);
          std::memcpy(
              packed + k / V * block_size() + (step * V + k % V) * step_bytes +
                  (block % blocks_at_once * group + at % group) * static_cast<int>(sizeof weight),
              &weight, sizeof weight);
          sum += *weights;
        }
      std::memcpy(packed + filter_blocks_ * block_size() + std::ptrdiff_t{k} * 4, &sum, 4);
    }
  }

  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  void run(int samples,
           const In* x,  // (N, C/B, H, W, B)
           const affine_quantizer<float>& k,
           const std::int8_t* packed,  // (K/V, C/B, R, steps, V, 4 bytes), (K)
           const float* scales,        // (K)
           Out* y,                     // (N, K/V, H', W', V), or (N, H', W', K) of few filters
           cpu::stream s) const {
    const std::size_t x_size = sample_size(in(), block_),
                      y_size = sample_size(out_, channel_block_size<V>(p_.filters));
    device::parallel_chunks(
        s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
          thread_local thread_memory memory;
          const std::size_t filters = static_cast<std::size_t>(filter_blocks_) * V;
          const filter_terms terms =
              memory.terms.template of<Out>(k, static_cast<std::size_t>(p_.filters), filters,
                                            packed + filter_blocks_ * block_size(), scales);
          const bool narrow = channel_block_size<V>(p_.filters) != V;
          auto* const wide = reinterpret_cast<Out*>(  // (K/V, H', W', V)
              narrow ? memory.wide.reserve(filters * out_.pixels()) : nullptr);
          number* const padded = sample_.padded(memory.padded, k.zero_point);
          for (std::size_t n = first; n < last; ++n) {
            // Bytes need no quantizer, which computes with floats.
            if constexpr (std::same_as<In, float>)
              sample_.quantize(x + n * x_size, byte_quantizer<V>(k), padded);
            else
              sample_.quantize(x + n * x_size, no_quantizer{}, padded);
            correlate_sample(padded, packed, terms, n + 1 < last ? x + (n + 1) * x_size : nullptr,
                             x_size * sizeof(In), narrow ? wide : y + n * y_size);
            if (!narrow) continue;
            const auto wanted = static_cast<std::size_t>(p_.filters);
            for (std::size_t at = 0; at < out_.pixels(); ++at)
              std::copy_n(wide + at * V, wanted, y + n * y_size + at * wanted);
          }
        });
  }

  /// A part of each sample on this thread; several samples share each reading of the weights.
  /// x_of(n) is sample n, (C/B, H, W, B). Calls consume(n, chunk) for the part's filters and
  /// pixels, while the sums are in the first-level cache. `to_bytes` has quantize(x, q), of V
  /// numbers, and byte_of(x); it is not called where x are bytes. Allocates nothing if `memory` has
  /// been reserved for it.
  template <class X, class ToBytes, class Consume>
  void run_samples(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point,
                   const std::int8_t* packed,    // (K/V, C/B, R, steps, V, 4 bytes), (K)
                   const std::int32_t* initial,  // (K/V, V): of the sums
                   const Consume& consume, core::equal_part part = {}) const {
    const byte_region r = region_of(part);
    const int size = chunk_size(), end = r.last_row * out_.width;
    std::int32_t* const sums = memory.sums.reserve(sums_size());  // (2, pixels of a chunk, V)
    for_filters(memory, samples, x_of, to_bytes, zero_point, r,
                [&](int f, std::size_t n, const number* x) {
                  for (int first = r.first_row * out_.width, next; first < end; first = next) {
                    next = std::min(first + size - (in_panels() ? first % size : 0), end);
                    consume(n, sum_pixels(x, r, f, first, next - first, packed, initial, sums));
                  }
                });
  }

  /// Whether run_fused is there.
  static constexpr bool fuses = !pairs && Products::dots && V == 16;

  [[nodiscard]] byte_region region_of(core::equal_part part) const {
    const auto pair_size = static_cast<std::size_t>(2 * block_size());
    return byte_regions{filter_blocks_, out_.height,
                        pair_size * static_cast<std::size_t>(out_.width), pair_size,
                        sample_.size() * sizeof(number) / static_cast<std::size_t>(out_.height)}
        .of(part);
  }
  /// All filters in rows of y: `row_pixels` pixels each, not those of y where windows are of one
  /// pixel.
  [[nodiscard]] int rows() const { return out_.height; }
  [[nodiscard]] int row_pixels() const { return out_.width; }
  [[nodiscard]] byte_region rows_region(int i, int end) const {
    return {0, filter_blocks_, i, end};
  }

  /// As run_samples, but the sums stay in registers: an epilogue (byte_tile.hpp) makes y of them.
  /// y_of(n) is y of sample n, (K/V, H', W', V); epilogue_of(n, f) the epilogue of sample n and two
  /// blocks of filters from f on.
  template <class X, class ToBytes, class Y, class EpilogueOf>
    requires(fuses)
  void run_fused(byte_scratch& memory, std::size_t samples, const X& x_of, const ToBytes& to_bytes,
                 int zero_point,
                 const std::int8_t* packed,    // (K/V, C/B, R, steps, V, 4 bytes), (K)
                 const std::int32_t* initial,  // (K/V, V): of the sums
                 const Y& y_of, const EpilogueOf& epilogue_of, const byte_region& r) const {
    using Out = std::remove_cvref_t<decltype(*y_of(0))>;
    const int window_rows = blocks_ * p_.window;
    for_filters(memory, samples, x_of, to_bytes, zero_point, r,
                [&](int f, std::size_t n, const number* x) {
                  auto at = tile_of<Out>(f, packed, {initial, nullptr});
                  at.x = byte_address(x) + std::ptrdiff_t{r.first_row} * p_.stride * sample_.row();
                  at.y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
                  at.y = y_of(n) + f * at.y_block + std::ptrdiff_t{r.first_row} * out_.width * V;
                  at.y_lines = (longest_byte_tile<V, 2> + window_rows - 1) / window_rows;
                  at.prefetch = reinterpret_cast<const char*>(at.w);
                  prefetch_weights(at, r, f, packed, 0);
                  tile_rows(at, f, r.rows(), epilogue_of(n, f));
                });
  }

  /// Makes `memory` as large as run_samples of up to so many samples of any input needs.
  void reserve(byte_scratch& memory, std::size_t samples) const {
    memory.sums.reserve(sums_size());
    memory.padded<number>().reserve(sample_.padded_size(samples_at_once(samples)));
  }

 private:
  /// Whether pixels are multiplied by pair_panels.
  [[nodiscard]] bool in_panels() const {
    return pairs && !Products::short_sums && sample_.in_panels();
  }
  /// Pixels: whole rows, or whole panels.
  [[nodiscard]] int chunk_size() const {
    if (in_panels()) return chunk_pixels / pair_tile_pixels * pair_tile_pixels;
    return std::max(1, chunk_pixels / out_.width) * out_.width;
  }
  [[nodiscard]] std::size_t sums_size() const {
    return 2 * V * std::min(static_cast<std::size_t>(chunk_size()), out_.pixels());
  }
  [[nodiscard]] std::size_t samples_at_once(std::size_t samples) const {
    return std::clamp(cached_bytes / (sample_.size() * sizeof(number)), std::size_t{1}, samples);
  }
  static constexpr int chunk_pixels = 128;
  static constexpr std::size_t cached_bytes = 262144;  // of samples, in the second-level cache

  struct thread_memory {
    scratch<number> padded;      // (samples, C/B, rows, columns, B), or in panels
    scratch<std::int32_t> wide;  // (K/V, H', W', V)
    filter_terms_memory terms;
  };
  /// Calls f(block of filters, sample, its bytes) for the samples and each two blocks of filters of
  /// the region; the bytes are x itself, or x in padded rows.
  template <class X, class ToBytes, class F>
  void for_filters(byte_scratch& memory, std::size_t samples, const X& x_of,
                   const ToBytes& to_bytes, int zero_point, const byte_region& r,
                   const F& f) const {
    using In = std::remove_cvref_t<decltype(*x_of(0))>;
    if (r.empty()) return;
    const bool in_place = std::same_as<In, std::uint8_t> && sample_.is_input();
    const std::size_t size = sample_.size(), at_once = samples_at_once(samples);
    const typename decltype(sample_)::row_range read{r.first_row * p_.stride,
                                                     (r.last_row - 1) * p_.stride + p_.window};
    for (std::size_t first = 0; first < samples; first += at_once) {
      const std::size_t last = std::min(samples, first + at_once);
      number* const padded =
          in_place ? nullptr
                   : sample_.padded(memory.padded<number>(), zero_point, last - first, read);
      if (!in_place)
        for (std::size_t n = first; n < last; ++n)
          sample_.quantize(x_of(n), to_bytes, padded + (n - first) * size, read);
      for (int block = r.first_block; block < r.last_block; block += 2)
        for (std::size_t n = first; n < last; ++n) {
          const number* bytes = padded + (n - first) * size;
          if constexpr (std::same_as<In, number>)
            if (in_place) bytes = x_of(n);
          f(block, n, bytes);
        }
    }
  }

  [[nodiscard]] std::ptrdiff_t block_size() const {
    return std::ptrdiff_t{step_bytes * V} * ((blocks_ + blocks_at_once - 1) / blocks_at_once) *
           p_.window * steps_;
  }
  struct no_quantizer {};

  /// Window rows that all tiles of so many rows read, of the same filters.
  [[nodiscard]] int window_rows_read(int rows) const {
    const int tiles = pairs ? (rows * out_.width + pair_tile_pixels - 1) / pair_tile_pixels
                            : byte_tiles_of_rows<V>(filter_blocks_ > 1, rows, out_.width);
    return tiles * blocks_ * p_.window;
  }
  /// Has the tiles from row `done` of the region on prefetch the next filters' weights, if these
  /// are longer than what the region's tiles read.
  template <class Out>
  void prefetch_weights(byte_tile<Out>& at, const byte_region& r, int f, const std::int8_t* packed,
                        int done) const {
    const std::ptrdiff_t lines = 2 * block_size() / 64 / window_rows_read(r.rows());
    if (lines == 0 || f + 3 >= r.last_block) return;
    at.prefetch = reinterpret_cast<const char*>(packed + (f + 2) * block_size() +
                                                2 * block_size() * done / r.rows());
    at.prefetch_lines = static_cast<int>(lines);
  }
  /// The sums of two blocks of filters from f on, at so many pixels from `first` on.
  chunk sum_pixels(const number* bytes, const byte_region& r, int f, int first, int pixels,
                   const std::int8_t* packed, const std::int32_t* initial,
                   std::int32_t* sums) const {
    auto at = tile_of<std::int32_t>(f, packed, {initial, nullptr});
    at.x = byte_address(bytes);
    at.y = sums;
    at.y_block = std::ptrdiff_t{pixels} * V;
    const int row = first / out_.width, done = first - r.first_row * out_.width,
              all = r.rows() * out_.width;
    prefetch_weights(at, r, f, packed, done / out_.width);
    if constexpr (!pairs) at.x += std::ptrdiff_t{row} * p_.stride * sample_.row();
    correlate_pixels(at, f, first, pixels);
    const std::size_t to_next_filters =
        f + 2 < r.last_block ? 2 * out_.pixels() - static_cast<std::size_t>(done) : 0;
    const std::size_t next =
        done + pixels < all ? static_cast<std::size_t>(pixels) : to_next_filters;
    return {f,
            std::min(2, filter_blocks_ - f),
            static_cast<std::size_t>(first),
            static_cast<std::size_t>(pixels),
            sums,
            next};
  }
  template <ByteConvolutionOutput Out>
  void correlate_sample(const number* x,            // (C/B, rows, columns, B), or in panels
                        const std::int8_t* packed,  // (K/V, C/B, R, steps, V, 4 bytes), (K)
                        const filter_terms& terms, const void* next, std::size_t next_size,
                        Out* y) const {  // (K/V, H', W', V)
    const int window_rows = window_rows_read(out_.height),
              lines = (static_cast<int>(next_size) / 64 + window_rows - 1) / window_rows;
    for (int f = 0; f < filter_blocks_; f += 2) {
      auto at = tile_of<Out>(f, packed, terms);
      at.x = byte_address(x);
      at.y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
      at.y = y + f * at.y_block;
      at.prefetch = static_cast<const char*>(next);
      at.prefetch_lines = next != nullptr && f == 0 ? lines : 0;
      correlate_pixels(at, f, 0, static_cast<int>(out_.pixels()));
    }
  }
  /// A tile of the filters from block f on, without the addresses of x and y.
  template <class Out>
  [[nodiscard]] byte_tile<Out> tile_of(int f, const std::int8_t* packed,
                                       const filter_terms& terms) const {
    int rows_at_once = 0;
    if constexpr (Products::short_sums)
      std::memcpy(&rows_at_once, packed + packed_size(), sizeof rows_at_once);
    constexpr std::ptrdiff_t bytes = sizeof(number);
    return {.x_step = bytes * block_ * p_.stride,
            .x_row = bytes * sample_.row(),
            .x_block = bytes * (sample_.in_panels() ? block_ * pair_tile_pixels : sample_.plane()),
            .w = packed + f * block_size(),
            .w_block = block_size(),
            .initial = terms.initial + f * V,
            .scales = terms.scales == nullptr ? nullptr : terms.scales + f * V,
            .y_row = std::ptrdiff_t{V} * out_.width,
            .blocks = blocks_,
            .rows = p_.window,
            .steps = steps_,
            .rows_at_once = rows_at_once,
            .dense = p_.window == 1 && p_.stride == 1 && block_ == V,
            .rows3x3 = p_.window == 3 && p_.stride == 1 && block_ == V};
  }
  /// `rows` rows of y, for the filters from block f on.
  template <class Out, class Epilogue>
  void tile_rows(byte_tile<Out>& at, int f, int rows, const Epilogue& epilogue) const {
    f + 1 < filter_blocks_
        ? byte_rows<V, Products::dots, 2>(at, rows, out_.width, p_.stride, epilogue)
        : byte_rows<V, Products::dots, 1>(at, rows, out_.width, p_.stride, epilogue);
  }
  /// Pixels from `first` on, whole rows if the products are not pairs. at.x is that of the first
  /// one, with pairs that of the sample.
  template <ByteConvolutionOutput Out>
  void correlate_pixels(byte_tile<Out>& at, int f, int first, int pixels) const {
    const bool two_blocks = f + 1 < filter_blocks_;
    const int rows = pixels / out_.width;
    if constexpr (pairs) {
      const bool panels = sample_.in_panels();
      const std::ptrdiff_t pitch = panels ? blocks_ * at.x_block : p_.stride * at.x_row;
      if (in_panels())
        pair_panels_of(at, two_blocks, first, pixels, pitch);
      else
        pair_tiles<Products::short_sums>(at, two_blocks, first, pixels,
                                         panels ? pair_tile_pixels : out_.width, pitch);
    } else if constexpr (matrices) {
      two_blocks ? byte_matrix_rows<V, Products::native, 2>(at, rows, out_.width, p_.stride)
                 : byte_matrix_rows<V, Products::native, 1>(at, rows, out_.width, p_.stride);
    } else {
      tile_rows(at, f, rows, store_byte_sums{});
    }
  }
  byte_sample<V, number, Products::panel> sample_;
  convolution_problem p_;  // the sample's
  extent out_;
  int block_, blocks_, steps_;  // of the sample; groups of four bytes in a window row
  int filter_blocks_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
