// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The classifier of an integer network on SIMD registers, as a convolution of bytes by a window of
// one pixel: the four bytes of a feature x are four pixels, a weight w = 256 h + l of 15 bits is
// one of each of two filters, and of their sums H[i] and L[i]
//
//   sum over features of w x = sum over i < 4 of 2^(8 i) (256 H[i] + L[i])  -  2^31 sum of w
//
// since the bytes are those of the number x + 2^31, which has no sign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/equal_part.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/engines/amx/int8/bytes.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Correlation: with the functions of ops::byte_correlation.
template <int V, class Correlation = ops::default_byte_correlation<V>>
class packed_classifier {
  using correlation = Correlation;
  static constexpr std::size_t bytes = sizeof(std::int32_t);

 public:
  /// Scratch memory of one thread.
  struct memory {
    ops::scratch<std::uint8_t> features;  // (N, F/B, 4, B)
    ops::byte_scratch kernel;
  };

  /// Keeps a reference to the layer. Requires at most most_terms features.
  explicit packed_classifier(const integer_classifier& c)
      : layer_(&c),
        kernel_(convolution_problem{{static_cast<int>(c.features), 1, int{bytes}},
                                    2 * static_cast<int>(c.classes)}),
        packed_(weights_.reserve(kernel_.packed_size())),
        initial_((2 * c.classes + V - 1) / V * V),
        bias_(c.bias) {
    std::vector<std::int8_t> halves(2 * c.weights.size());  // (classes, 2, features)
    for (std::size_t i = 0; i < c.weights.size(); ++i) {
      const std::int16_t w = c.weights[i];
      const auto low = static_cast<std::int8_t>(w);
      const std::size_t at = i + i / c.features * c.features;
      halves[at] = static_cast<std::int8_t>((w - low) / 256);
      halves[at + c.features] = low;
      bias_[i / c.features] -= (std::int64_t{1} << 31) * w;
    }
    kernel_.pack(halves.data(), packed_);
  }

  packed_classifier(packed_classifier&&) noexcept = default;
  packed_classifier& operator=(packed_classifier&&) noexcept = default;

  /// A part of the classes of `samples` samples; x_of(n) are the features of sample n, logits_of(n)
  /// its classes.
  template <class X, class Logits>
  void run(memory& m, std::size_t samples, const X& x_of, const Logits& logits_of,
           core::equal_part part = {}) const {
    m.features.reserve(samples * size());
    for (std::size_t n = 0; n < samples; ++n) take(m, n, x_of(n));
    run_taken(m, samples, logits_of, part);
  }
  /// The same in two parts: of samples whose features were taken one after another. Requires memory
  /// that is reserved for them.
  void take(memory& m, std::size_t n, const std::int32_t* x) const {
    split(x, m.features.reserve((n + 1) * size()) + n * size());
  }
  template <class Logits>
  void run_taken(memory& m, std::size_t samples, const Logits& logits_of,
                 core::equal_part part = {}) const {
    std::uint8_t* const q = m.features.reserve(samples * size());  // (N, F/B, 4, B)
    kernel_.run_samples(
        m.kernel, samples, [&](std::size_t n) { return q + n * size(); }, no_bytes{}, 0, packed_,
        initial_.data(),
        [&](std::size_t n, const typename correlation::chunk& sums) { finish(sums, logits_of(n)); },
        part);
  }

  /// So that `run` of up to so many samples allocates nothing.
  void reserve(memory& m, std::size_t samples) const {
    m.features.reserve(samples * size());
    kernel_.reserve(m.kernel, samples);
  }

 private:
  struct no_bytes {};  // the pixels are bytes

  [[nodiscard]] std::size_t size() const {  // of a sample's features
    return ops::sample_size(kernel_.in(), kernel_.block());
  }

  void split(const std::int32_t* x, std::uint8_t* q) const {
    const auto block = static_cast<std::size_t>(kernel_.block());
    for (std::size_t f = 0; f < layer_->features; f += block)
      for (std::size_t i = 0; i < bytes; ++i)
        for (std::size_t v = 0; v < block; ++v, ++q) {
          const std::uint32_t number =
              f + v < layer_->features ? static_cast<std::uint32_t>(x[f + v]) ^ 0x80000000U : 0;
          *q = static_cast<std::uint8_t>(number >> 8 * i);
        }
  }
  void finish(const typename correlation::chunk& sums, std::int32_t* logits) const {
    for (std::size_t v = 0; v < static_cast<std::size_t>(sums.blocks) * V; v += 2) {
      const std::size_t k = (static_cast<std::size_t>(sums.filter_block) * V + v) / 2;
      if (k >= layer_->classes) return;
      std::int64_t sum = bias_[k];
      for (std::size_t i = 0; i < bytes; ++i) {
        const std::int32_t* const halves = sums.sums + (v / V * bytes + i) * V + v % V;
        sum += (256 * std::int64_t{halves[0]} + halves[1]) << 8 * i;
      }
      if (layer_->shift > 0)
        sum = (sum + (std::int64_t{1} << (layer_->shift - 1))) >> layer_->shift;
      logits[k] = static_cast<std::int32_t>(ops::rescaled(sum, layer_->factors[k]));
    }
  }

  const integer_classifier* layer_;
  correlation kernel_;
  ops::scratch<std::int8_t> weights_;
  std::int8_t* packed_;                // in weights_, aligned to a cache line
  std::vector<std::int32_t> initial_;  // zeros
  std::vector<std::int64_t> bias_;     // (classes), less 2^31 sum of w
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
