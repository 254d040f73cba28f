// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Examples by number: bytes of an image and a label.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>

namespace cordee::inline CORDEE_ABI {

/// Example i is the same bytes and the same label, 0 .. classes - 1, whenever it is read. `read` is
/// called by several threads at once and fills exactly image().size() bytes, channel by channel.
/// Copies are cheap: every rank has its own.
template <class S>
concept Dataset = requires(const S s, std::size_t i, std::span<std::uint8_t> pixels) {
  { s.image() } -> std::convertible_to<extent>;
  { s.classes() } -> std::convertible_to<int>;
  { s.size() } -> std::convertible_to<std::size_t>;
  { s.read(i, pixels) } -> std::convertible_to<int>;  // copies example i, returns its label
};

}  // namespace cordee::inline CORDEE_ABI
