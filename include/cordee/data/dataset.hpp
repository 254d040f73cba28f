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
// Optional members, used by the loader, `split` and `fit` if they exist:
//
//     read(i, pixels, random) const    -> int     as read, cropped or otherwise drawn at random
//     order(seed, epoch) const         -> std::vector<std::uint32_t>    the order of an epoch
//     label(i) const                   -> int     example i's label, without reading it; equals
//                                                 what read returns, unless read replaces it
//     reading() const                  -> input_statistics::reading_seconds   of all copies
//     class_names() const              -> std::vector<std::string>   by label; empty: unknown
//
// One line tests it: CHECK(dataset_laws(my_dataset{}) == "").
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/member_check.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI {

/// Example i has the same bytes and label at every read. Several threads call `read` concurrently;
/// it writes exactly image().size() bytes, in (channel, row, column) order. Copies are cheap: every
/// rank has one.
template <class S>
concept Dataset = requires(const S s, std::size_t i, std::span<std::uint8_t> pixels) {
  { s.image() } -> std::convertible_to<extent>;
  { s.classes() } -> std::convertible_to<int>;
  { s.size() } -> std::convertible_to<std::size_t>;
  { s.read(i, pixels) } -> std::convertible_to<int>;
};

namespace detail::data {

/// The loader gives the sequence of (seed, purpose::resampling, epoch, i), of which alone the image
/// may depend beside i; so it is the same for any number of ranks and threads. Such data sets are
/// taken to be worth several threads.
template <class S>
concept DrawnAtRandom =
    Dataset<S> &&
    requires(const S s, std::size_t i, std::span<std::uint8_t> pixels, random_sequence random) {
      { s.read(i, pixels, random) } -> std::convertible_to<int>;
    };

/// Its samples are read faster in some orders than in others. The order is a permutation of
/// 0 .. size() - 1, a function of (seed, epoch).
template <class S>
concept Ordered = requires(const S s, std::uint64_t seed, std::int64_t epoch) {
  { s.order(seed, epoch) } -> std::convertible_to<std::vector<std::uint32_t>>;
};

/// Gives the label of example i without the pixels, the same at every call and on every rank, since
/// `split` selects by it. `read` returns it, too, unless it gives another example in this one's
/// place, as decoded_images does for a broken image that is skipped.
template <class S>
concept Labelled = requires(const S s, std::size_t i) {
  { s.label(i) } -> std::convertible_to<int>;
};

/// Has names for its labels, which `fit` and `evaluate` compare with those of training.
template <class S>
concept NamesClasses = requires(const S s) {
  { s.class_names() } -> std::convertible_to<std::vector<std::string>>;
};

/// By label; empty if they are not known.
template <class S>
[[gnu::cold]] std::vector<std::string> class_names_of(const S& dataset) {
  if constexpr (NamesClasses<S>)
    return dataset.class_names();
  else
    return {};
}

template <class S>
auto check_dataset(const S& object, std::size_t i, std::span<std::uint8_t> pixels,
                   std::uint64_t seed, std::int64_t epoch) {
  CORDEE_MEMBER(required, "data set", S, extent, image, () const, ());
  CORDEE_MEMBER(required, "data set", S, int, classes, () const, ());
  CORDEE_MEMBER(required, "data set", S, std::size_t, size, () const, ());
  CORDEE_MEMBER(required, "data set", S, int, read,
                (std::size_t i, std::span<std::uint8_t> pixels) const, (i, pixels));
  CORDEE_MEMBER(optional, "data set", S, std::vector<std::uint32_t>, order,
                (std::uint64_t seed, std::int64_t epoch) const, (seed, epoch), orders, permutation);
  CORDEE_MEMBER(optional, "data set", S, int, label, (std::size_t i) const, (i), labels, label_of,
                get_label, target);
  CORDEE_MEMBER(optional, "data set", S, std::vector<std::string>, class_names, () const, ());
}
/// True, or a compile error that states the member which is missing, has another type or is likely
/// misspelt.
template <class S>
consteval bool has_dataset_members() {
  return core::compiles<decltype(&check_dataset<S>)>;
}

}  // namespace detail::data

}  // namespace cordee::inline CORDEE_ABI
