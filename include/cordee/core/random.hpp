// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11).
//
// A number depends only on (seed, purpose, a, b, position); sequences share no state. So the crop
// of sample 17 in epoch 3 is the same for any number of ranks or threads, and after a resume.
#pragma once

#include <array>
#include <cstdint>
#include <numbers>

#include <cordee/core/config.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::core {

using philox_block = std::array<std::uint32_t, 4>;

/// Ten rounds of Philox4x32 on one counter block.
CORDEE_HOST_DEVICE constexpr philox_block philox(philox_block x, std::uint64_t seed) {
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

}  // namespace detail::core

/// What a random sequence is used for; sequences of different purposes are independent.
enum class purpose : std::uint32_t {
  weights,       ///< Initial weights.
  shuffle,       ///< Order of samples, and of shards, in an epoch.
  augmentation,  ///< Random crops, flips and cutouts.
  synthetic,     ///< Synthetic images, step times and failures.
  split,         ///< Division of a data set into training and validation.
  test,          ///< Values of laws and tests.
  matching,      ///< Pairs of ranks in `topologies::random_matching`.
  mixing,        ///< Weights and boxes of `mixup` and `cutmix`.
  resampling,    ///< Crops drawn by a data set while reading an image.
  regression,    ///< Subsets of losses fitted by `auto_wu`.
  dropout,       ///< Activations zeroed by dropout.
  adversary,     ///< Random starts and target classes of adversarial training.
  projection     ///< First directions of `power_sgd`.
};

/// The sequence of (seed, purpose, a, b), for example (seed, augmentation, epoch, sample). `a` is
/// taken modulo 2^24.
class random_sequence {
 public:
  /// Starts at the first number of the sequence.
  constexpr random_sequence(std::uint64_t seed, purpose use, std::uint64_t a, std::uint64_t b)
      : seed_(seed),
        counter_{0,
                 static_cast<std::uint32_t>(use) << 24 | static_cast<std::uint32_t>(a & 0xffffff),
                 static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32)} {}

  /// An independent sequence that depends only on this one's key and on `k`, not on its position.
  [[nodiscard]] constexpr random_sequence subsequence(std::uint32_t k) const {
    const detail::core::philox_block key =
        detail::core::philox({k, ~counter_[1], counter_[2], counter_[3]}, seed_);
    random_sequence s = *this;
    s.seed_ = std::uint64_t{key[0]} << 32 | key[1];
    s.counter_[0] = 0;
    s.used_ = 4;
    return s;
  }

  /// Returns the next 32 bits, uniform.
  constexpr std::uint32_t bits() {
    if (used_ == 4) make_block();
    return block_[used_++];
  }
  /// Uniform on 0 .. n-1, without bias (Lemire's rejection). Requires n > 0.
  constexpr std::uint32_t below(std::uint32_t n) {
    const std::uint32_t reject = (0u - n) % n;
    for (;;) {
      const std::uint64_t product = std::uint64_t{bits()} * n;
      if (static_cast<std::uint32_t>(product) >= reject)
        return static_cast<std::uint32_t>(product >> 32);
    }
  }
  /// Uniform on [0, 1), 53 bits.
  constexpr double uniform() {
    const std::uint64_t high = bits();
    return static_cast<double>((high << 32 | bits()) >> 11) * 0x1p-53;
  }
  /// True or false, each with probability 1/2.
  constexpr bool coin() { return (bits() >> 31) != 0; }
  /// Standard normal (Box and Muller; the second number is discarded, so calls are independent).
  [[gnu::noinline]] double normal() {
    double u[2];
    for (double& x : u) x = uniform();
    const double radius = detail::core::sqrt(-2 * detail::core::log1p(-u[0]));
    return radius * detail::core::cos(2 * std::numbers::pi * u[1]);
  }

 private:
  // Out of line: `below`, `uniform` and `coin` are compiled into many functions.
  [[gnu::noinline]] constexpr void make_block() {
    block_ = detail::core::philox(counter_, seed_);
    ++counter_[0];
    used_ = 0;
  }

  std::uint64_t seed_;
  detail::core::philox_block counter_;
  detail::core::philox_block block_{};
  unsigned used_ = 4;
};

}  // namespace cordee::inline CORDEE_ABI
