// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Augmentations one after another, from left to right:
//
//   compose{pad_crop_flip{.pad = 4}, horizontal_flip{}, cutout{16}}
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/augmentation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Applies augmentations in sequence. Each draws from its own subsequence, given by its kind (the
/// constant `subsequence` of its type) and the number of earlier ones of that kind. Adding one of
/// another kind thus does not change what the others draw; types without the constant share a kind.
template <Augmentation... A>
class compose {
 public:
  /// The steps, in order; inactive ones are skipped.
  explicit compose(A... steps) : steps_(std::move(steps)...) {}

  /// Whether any step is active.
  [[nodiscard]] bool active() const {
    return std::apply([](const A&... a) { return (false || ... || a.active()); }, steps_);
  }

  /// See Augmentation; without an active step the image is copied.
  void operator()(const extent& e, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    thread_local detail::core::pod_vector<std::uint8_t> between;
    between.resize(out.size());
    int left = 0;  // active steps that are still to come
    std::apply([&](const A&... a) { ((left += a.active() ? 1 : 0), ...); }, steps_);
    if (left == 0) {
      std::copy(in.begin(), in.end(), out.begin());
      return;
    }
    std::size_t k = 0;
    const auto run = [&](const auto& step) {
      const std::uint32_t key = keys()[k++];
      if (!step.active()) return;
      // The last step writes `out`; the ones before alternate.
      const std::span<std::uint8_t> to = --left % 2 == 0 ? out : between.span();
      step(e, in, to, random.subsequence(key));
      in = to;
    };
    std::apply([&](const A&... a) { (run(a), ...); }, steps_);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    std::string text;
    const auto add = [&](const auto& step) {
      if (!step.active()) return;
      if constexpr (requires { step.describe(); })
        text += concat(text.empty() ? "" : ", then ", step.describe());
    };
    std::apply([&](const A&... a) { (add(a), ...); }, steps_);
    return text.empty() ? "no augmentation" : text;
  }

 private:
  static constexpr std::array<std::uint32_t, sizeof...(A)> keys() {
    const std::array<std::uint32_t, sizeof...(A)> kinds{detail::data::kind_of<A>()...};
    std::array<std::uint32_t, sizeof...(A)> keys{};
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      std::uint32_t before = 0;
      for (std::size_t j = 0; j < k; ++j) before += kinds[j] == kinds[k] ? 1 : 0;
      keys[k] = kinds[k] << 16 | before;
    }
    return keys;
  }

  std::tuple<A...> steps_;
};

}  // namespace cordee::inline CORDEE_ABI
