// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Encoded images by index, each the bytes of a JPEG or PNG file and a label.
//
//   struct my_images {
//     member                   type               meaning
//     classes() const          -> int             labels are 0 .. classes() - 1
//     size() const             -> std::size_t     number of examples
//     read(i, bytes) const     -> int             bytes becomes the encoded image i; returns its
//                                                 label
//     name(i) const            -> std::string     of example i in messages: a path, or file and
//                                                 record
//     order(seed, epoch) const -> std::vector<std::uint32_t>    optional: the order of an epoch
//     label(i) const           -> int             optional: the label that read returns, without
//                                                 reading the image; `split` reads each
//   };
//
// One line tests it: CHECK(encoded_dataset_laws(my_images{}) == "").
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Example i has the same bytes and label at every read. Several threads call `read` concurrently,
/// each with its own bytes, whose memory it reuses; it throws sample_error if only this sample is
/// damaged. Copies are cheap: every rank has one.
template <class S>
concept EncodedDataset = requires(const S s, std::size_t i, std::vector<std::uint8_t>& bytes) {
  { s.classes() } -> std::convertible_to<int>;
  { s.size() } -> std::convertible_to<std::size_t>;
  { s.read(i, bytes) } -> std::convertible_to<int>;
  { s.name(i) } -> std::convertible_to<std::string>;
};

}  // namespace cordee::inline CORDEE_ABI
