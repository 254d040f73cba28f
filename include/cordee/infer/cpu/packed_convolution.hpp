// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution of an integer network, with weights packed once: by AMX's tiles
// (ops/engines/amx/int8/bytes.hpp), or engine `direct`'s convolution of bytes (vpdpbusd with
// AVX-512 VNNI or AVX-VNNI; with AVX2 alone products of 16 bits or, where weights are so small that
// it does not clip, as most of 4 and 2 bits are, vpmaddubsw: ops/engines/direct/int8/bytes.hpp).
// The zero point's share is the initial value of the sums, which are rescaled in registers, by the
// tiles' epilogue (AVX-512 VNNI), or while they are in the first-level cache.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <cordee/core/equal_part.hpp>
#include <cordee/infer/cpu/requantize_epilogue.hpp>
#include <cordee/infer/cpu/rescale_lanes.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/engines/amx/int8/bytes.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// The bytes that a convolution makes of an input of 32 bits.
template <int V>
class stream_bytes {
 public:
  stream_bytes(const integer_convolution& layer, bool fits_32_bits)
      : layer_(&layer),
        fits_32_bits_(fits_32_bits),
        rescale_(fits_32_bits ? layer.input_factor : ops::fixed_point{}, layer.zero_point) {}

  [[gnu::always_inline]] void quantize(const std::int32_t* x, std::uint8_t* q) const {
    if (fits_32_bits_)
      store_bytes<V>(q, rescale_(ops::load<std::int32_t, V>(x)));
    else
      for (int v = 0; v < V; ++v) q[v] = byte_of(x[v]);
  }
  [[nodiscard]] std::uint8_t byte_of(std::int32_t x) const {
    return static_cast<std::uint8_t>(layer_->byte_of<std::int64_t>(x));
  }
  [[nodiscard]] bool fits_32_bits() const { return fits_32_bits_; }
  /// Rescales to bytes that are not clipped yet. Requires factors that fit 32 bits.
  [[nodiscard]] const wide_rescaling<V>& rescale() const { return rescale_; }

 private:
  const integer_convolution* layer_;
  bool fits_32_bits_;
  wide_rescaling<V> rescale_;
};

/// Correlation: with the functions of ops::byte_correlation.
template <int V, class Correlation = ops::default_byte_correlation<V>>
class packed_convolution {
  using correlation = Correlation;

 public:
  /// Keeps a reference to the layer. `largest_residual`: of the magnitudes of what is added; 0:
  /// nothing is.
  packed_convolution(const integer_convolution& c, std::int64_t largest_residual)
      : layer_(&c),
        kernel_(c.problem),
        packed_(weights_.reserve(kernel_.packed_size())),
        rescale_residual_(c.residual_factor.shift < 31 ? c.residual_factor : ops::fixed_point{}) {
    kernel_.pack(c.weights.data(), packed_);
    const std::size_t filters = c.bias.size(), filter_size = c.weights.size() / filters;
    initial_.resize((filters + V - 1) / V * V);
    const auto check = [&](std::int64_t bound, ops::fixed_point f, std::int64_t addend = 0) {
      // A factor of 2^30 is not rescaled here; others shift by at least one.
      if (f.shift >= 31 ||
          ops::rescaled(std::min(bound, std::int64_t{1} << 31), f, addend) >= 1 << 29)
        fits_32_bits_ = false;
    };
    std::vector<std::int64_t> addends;
    for (std::size_t k = 0; k < filters; ++k) {
      std::int64_t sum = 0, bound = 0;
      for (std::size_t i = 0; i < filter_size; ++i) {
        sum += c.weights[k * filter_size + i];
        bound += 255 * std::abs(c.weights[k * filter_size + i]);
      }
      addends.push_back(c.addend<std::int64_t>(k));
      check(bound, c.factors[k], std::abs(addends.back()));
      // No partial sum leaves 32 bits: see most_terms.
      initial_[k] = static_cast<std::int32_t>(-c.zero_point * sum);
    }
    // Then a product with the zero point stays below 2^60, and all of a sum below 2^63.
    offset_in_addends_ = std::all_of(c.factors.begin(), c.factors.end(),
                                     [](ops::fixed_point f) { return f.shift >= -21; });
    if (offset_in_addends_)
      for (std::size_t k = 0; k < filters; ++k)
        addends[k] += std::int64_t{c.offset} << (31 - c.factors[k].shift);
    check(largest_residual, c.residual_factor);
    check(wide_limit, c.input_factor);
    to_bytes_.emplace(c, fits_32_bits_);
    if (!fits_32_bits_) return;
    const auto rescalings = [&](std::vector<rescaling<V>>& to) {
      for (std::size_t k = 0; k < filters; k += V) {
        const std::size_t count = std::min<std::size_t>(V, filters - k);
        to.emplace_back(std::span(c.factors).subspan(k, count),
                        std::span(addends).subspan(k, count));
        shifts_before_ = shifts_before_ || to.back().shifts_before();
      }
    };
    rescalings(factors_);
    if constexpr (requires { kernel_.prefers_zeros(); })
      if (kernel_.prefers_zeros()) {
        for (std::size_t k = 0; k < filters; ++k)
          addends[k] += std::int64_t{initial_[k]} * c.factors[k].multiplier;
        rescalings(factors_of_zeros_);
      }
  }

  packed_convolution(packed_convolution&&) noexcept = default;
  packed_convolution& operator=(packed_convolution&&) noexcept = default;

  [[nodiscard]] const integer_convolution& layer() const { return *layer_; }

  /// So that `run` of up to so many samples allocates nothing.
  void reserve(ops::byte_scratch& memory, std::size_t samples) const {
    kernel_.reserve(memory, samples);
  }

  /// What makes bytes of an input of 32 bits.
  [[nodiscard]] const stream_bytes<V>& to_bytes() const { return *to_bytes_; }

  /// `samples` samples in blocks of channels, each `pitch` bytes behind
  /// the one before; `residual` may be null. With `copy` the bytes that
  /// it makes of an output of 32 bits are written behind it.
  template <Activation In, Activation Out>
  void run(ops::byte_scratch& memory, const In* x, const std::int32_t* residual, Out* y,
           std::size_t samples = 1, std::size_t pitch = 0, const stream_bytes<V>* copy = nullptr,
           core::equal_part part = {}) const {
    if constexpr (fuses)
      if (can_fuse(residual != nullptr, sizeof(Out), copy))
        return run_fused(memory, x, residual, y, samples, pitch, copy, kernel_.region_of(part));
    const auto sample = [pitch]<class T>(T* first, std::size_t n) {
      return first == nullptr ? first : first + n * (pitch / sizeof(T));
    };
    kernel_.run_samples(
        memory, samples, [&](std::size_t n) { return sample(x, n); }, *to_bytes_,
        layer_->zero_point, packed_, initial_.data(),
        [&](std::size_t n, const typename correlation::chunk& sums) {
          if (!fits_32_bits_ || layer_->problem.filters <= 4 ||
              (copy != nullptr && !copy->fits_32_bits()))
            finish_each(sums, sample(residual, n), sample(y, n), copy);
          else
            finish(sums, sample(residual, n), sample(y, n), copy);
        },
        part);
  }

  /// Rows in which run_rows computes y, and the pixels of one; 0 where it is not there.
  [[nodiscard]] int rows() const {
    if constexpr (fuses)
      return kernel_.rows();
    else
      return 0;
  }
  [[nodiscard]] int row_pixels() const {
    if constexpr (fuses)
      return kernel_.row_pixels();
    else
      return 0;
  }

  /// Whether run_rows is there for such outputs.
  [[nodiscard]] bool runs_rows(bool adds, int bytes, const stream_bytes<V>* copy) const {
    if constexpr (fuses)
      return can_fuse(adds, static_cast<std::size_t>(bytes), copy);
    else
      return false;
  }
  /// Some rows of one sample.
  template <Activation In, Activation Out>
  void run_rows(ops::byte_scratch& memory, const In* x, const std::int32_t* residual, Out* y,
                const stream_bytes<V>* copy, int first, int last) const {
    if constexpr (fuses)
      run_fused(memory, x, residual, y, 1, 0, copy, kernel_.rows_region(first, last));
  }

 private:
  using chunk = typename correlation::chunk;
  static constexpr bool fuses = requires { requires correlation::fuses; };

  /// Whether the tiles' epilogue makes the outputs.
  [[nodiscard]] bool can_fuse(bool adds, std::size_t bytes, const stream_bytes<V>* copy) const {
    return fits_32_bits_ && offset_in_addends_ && layer_->problem.filters % V == 0 &&
           (bytes > 1 || !adds) &&
           (copy == nullptr || (copy->fits_32_bits() && copy->rescale().is_shift()));
  }
  template <Activation In, Activation Out>
  void run_fused(ops::byte_scratch& memory, const In* x, const std::int32_t* residual, Out* y,
                 std::size_t samples, std::size_t pitch, const stream_bytes<V>* copy,
                 const ops::byte_region& region) const {
    const auto sample = [pitch]<class T>(T* first, std::size_t n) {
      return first == nullptr ? first : first + n * (pitch / sizeof(T));
    };
    const lanes32<V> low = lanes32<V>{} + layer_->low, high = lanes32<V>{} + layer_->high;
    const bool zeros = !factors_of_zeros_.empty();
    const rescaling<V>* const factors = (zeros ? factors_of_zeros_ : factors_).data();
    const auto run = [&](const auto& epilogue_of) {
      kernel_.run_fused(
          memory, samples, [&](std::size_t n) { return sample(x, n); }, *to_bytes_,
          layer_->zero_point, packed_, zeros ? nullptr : initial_.data(),
          [&](std::size_t n) { return sample(y, n); },
          [&](std::size_t n, int f) {
            return epilogue_of(n, factors + static_cast<std::size_t>(f));
          },
          region);
    };
    if constexpr (sizeof(Out) == 1) {
      run([&](std::size_t, const rescaling<V>* of_filters) {
        using bytes = ops::vec<std::uint8_t, 4 * V>;
        return byte_epilogue<V>{of_filters, bytes{} + static_cast<std::uint8_t>(layer_->low),
                                bytes{} + static_cast<std::uint8_t>(layer_->high), shifts_before_};
      });
    } else {
      const std::size_t size = y_size();
      const auto stream = [&]<shortcut_kind Kind>() {
        run([&](std::size_t n, const rescaling<V>* of_filters) {
          Out* const to = sample(y, n);
          return stream_epilogue<V, Kind>{
              of_filters,
              &rescale_residual_,
              &(copy == nullptr ? *to_bytes_ : *copy).rescale(),
              to,
              sample(residual, n),
              copy == nullptr ? nullptr : reinterpret_cast<std::uint8_t*>(to + size),
              low,
              high,
              shifts_before_};
        });
      };
      residual == nullptr            ? stream.template operator()<shortcut_kind::none>()
      : rescale_residual_.is_shift() ? stream.template operator()<shortcut_kind::shifted>()
                                     : stream.template operator()<shortcut_kind::rescaled>();
    }
  }

  /// By the definition, of filters that do not fill a block or sums that do not fit 32 bits.
  template <Activation Out>
  void finish_each(const chunk& sums, const std::int32_t* residual, Out* y,
                   const stream_bytes<V>* copy) const {
    const extent out = layer_->problem.out();
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(out.channels));
    std::uint8_t* const q = copy == nullptr ? nullptr : copy_behind(y);
    for (int b = 0; b < sums.blocks; ++b)
      for (std::size_t v = 0; v < V; ++v) {
        const std::size_t k = static_cast<std::size_t>(sums.filter_block + b) * V + v;
        if (k >= layer_->bias.size()) return;
        for (std::size_t p = 0; p < sums.pixels; ++p) {
          const std::size_t at = (k / block * out.pixels() + sums.first + p) * block + k % block;
          const std::int64_t added = residual == nullptr ? 0
                                                         : ops::rescaled(std::int64_t{residual[at]},
                                                                         layer_->residual_factor);
          const std::int32_t sum =
              sums.sums[(static_cast<std::size_t>(b) * sums.pixels + p) * V + v];
          y[at] = static_cast<Out>(layer_->output(k, std::int64_t{sum}, added));
          if constexpr (sizeof(Out) > 1)
            if (q != nullptr) q[at] = copy->byte_of(y[at]);
        }
      }
  }
  template <Activation Out>
  void finish(const chunk& sums, const std::int32_t* residual, Out* y,
              const stream_bytes<V>* copy) const {
    const wide_rescaling<V> rescale_residual = rescale_residual_;
    const wide_rescaling<V> to_copy = (copy == nullptr ? *to_bytes_ : *copy).rescale();
    const std::size_t pixels = layer_->problem.out().pixels();
    const lanes32<V> offset = lanes32<V>{} + (offset_in_addends_ ? 0 : layer_->offset),
                     low = lanes32<V>{} + layer_->low, high = lanes32<V>{} + layer_->high;
    std::uint8_t* const q = copy == nullptr ? nullptr : copy_behind(y);
    const std::int32_t* sum = sums.sums;
    for (int b = 0; b < sums.blocks; ++b) {
      const auto f = static_cast<std::size_t>(sums.filter_block + b);
      const rescaling<V> rescale = factors_[f];
      std::size_t at = (f * pixels + sums.first) * V;
      const std::size_t next = sums.next * V;  // the next chunk's outputs
      for (std::size_t p = 0; p < sums.pixels; ++p, at += V, sum += V) {
        __builtin_prefetch(y + at + next, 1);
        lanes32<V> v = rescale(ops::load<std::int32_t, V>(sum)) + offset;
        if (residual != nullptr) {
          __builtin_prefetch(residual + at + next);
          v += rescale_residual(ops::load<std::int32_t, V>(residual + at));
        }
        v = v < low ? low : v;
        v = v > high ? high : v;
        store_within<V>(y + at, v);
        if constexpr (sizeof(Out) > 1)
          if (q != nullptr) store_bytes<V>(q + at, to_copy(v));
      }
    }
  }
  [[nodiscard]] std::uint8_t* copy_behind(Activation auto* y) const {
    return reinterpret_cast<std::uint8_t*>(y + y_size());
  }
  [[nodiscard]] std::size_t y_size() const {  // numbers of a sample
    const extent out = layer_->problem.out();
    return ops::sample_size(out, ops::channel_block_size<V>(out.channels));
  }

  const integer_convolution* layer_;
  correlation kernel_;
  ops::scratch<std::int8_t> weights_;
  std::int8_t* packed_;                // in weights_, aligned to a cache line
  std::vector<std::int32_t> initial_;  // (K), the zero point's, padded with zeros to blocks
  std::vector<rescaling<V>> factors_;  // (K / V)
  std::vector<rescaling<V>> factors_of_zeros_;  // of sums without initial_, where tiles prefer them
  bool fits_32_bits_ = true;                    // every rescaled sum and residual
  bool offset_in_addends_ = false;              // the output's zero point, of factors_
  bool shifts_before_ = false;                  // any of factors_
  wide_rescaling<V> rescale_residual_;
  std::optional<stream_bytes<V>> to_bytes_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
