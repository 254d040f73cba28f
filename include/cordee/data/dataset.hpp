// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A data set: examples by index, each the bytes of an image and a label.
//
//   struct my_dataset {
//     member                   type               meaning
//     image() const            -> extent          channels, height, width of every image
//     classes() const          -> int             labels are 0 .. classes() - 1
//     size() const             -> std::size_t     number of examples
//     read(i, pixels) const    -> int             writes image i, returns its label
//   };
//
// There are no optional members. One line tests it: CHECK(dataset_laws(my_dataset{}) == "").
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI {

/// Example i has the same bytes and the same label at every read. `read` is called by several
/// threads concurrently and writes exactly image().size() bytes, in (channel, row, column) order.
/// Copies are cheap: every rank has its own.
template <class S>
concept Dataset = requires(const S s, std::size_t i, std::span<std::uint8_t> pixels) {
  { s.image() } -> std::convertible_to<extent>;
  { s.classes() } -> std::convertible_to<int>;
  { s.size() } -> std::convertible_to<std::size_t>;
  { s.read(i, pixels) } -> std::convertible_to<int>;
};

}  // namespace cordee::inline CORDEE_ABI
