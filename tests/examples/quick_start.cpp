// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// README's program, to the letter, on the first 600 images: all 10,000 would take minutes.
#include <algorithm>
#include <cstddef>

#include <cordee/cordee.hpp>

namespace {

struct first_images : cordee::idx {
  using cordee::idx::idx;
  [[nodiscard]] std::size_t size() const { return std::min<std::size_t>(600, idx::size()); }
};

}  // namespace

#define idx first_images
#include "examples/quick_start.cpp"
