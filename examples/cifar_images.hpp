// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-10 for the examples, or a synthetic set of its shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include <cordee/core/extent.hpp>
#include <cordee/data/cifar.hpp>
#include <cordee/data/synthetic.hpp>

namespace examples {

/// CIFAR-10 of a folder, or of "synthetic" so many random images: one type, so that each trainer is
/// compiled once.
class cifar_images {
 public:
  cifar_images(const std::string& folder, cordee::cifar10::part which, std::size_t synthetic_count)
      : source_(folder == "synthetic"
                    ? source(cordee::synthetic{
                          .extent = image(), .samples = synthetic_count, .seed = 1})
                    : source(cordee::cifar10(folder, which))) {}

  [[nodiscard]] static cordee::extent image() { return {3, 32, 32}; }
  [[nodiscard]] static int classes() { return 10; }
  [[nodiscard]] std::size_t size() const {
    return std::visit([](const auto& set) { return set.size(); }, source_);
  }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return std::visit([&](const auto& set) { return set.read(i, pixels); }, source_);
  }

 private:
  using source = std::variant<cordee::cifar10, cordee::synthetic>;
  source source_;
};

}  // namespace examples
