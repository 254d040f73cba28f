// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An augmentation turns an image's bytes into a training sample. To write one:
//
//   struct my_augmentation {            // any copyable type; passed to the loader, or in compose
//     member                            type       meaning
//     active() const                    -> bool    whether it is called at all
//     operator()(extent, in, out, random) const    writes out, an image of the same extent
//
//     optional member                   default    meaning
//     describe() const                  none       std::string: a phrase for the run's description
//     static constexpr subsequence      0          std::uint32_t: selects its draws in compose,
//                                                  which kinds of another number do not affect;
//                                                  those of this library use 1 to 3
//   };
//
// The order of an image's bytes is (channel, row, column).
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/extent.hpp>
#include <cordee/core/member_check.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// Writes another image of the same extent that depends only on the image and `random`, the
/// sequence of (seed, epoch, sample), and so on neither ranks nor threads. An augmentation that is
/// not `active` is not called.
template <class A>
concept Augmentation =
    std::copyable<A> && requires(const A a, const extent& e, std::span<const std::uint8_t> in,
                                 std::span<std::uint8_t> out, random_sequence random) {
      { a.active() } -> std::convertible_to<bool>;
      { a(e, in, out, random) };
    };

namespace detail::data {

template <class A>
auto check_augmentation(const A& object) {
  CORDEE_MEMBER(optional, "augmentation", A, std::string, describe, () const, (), description,
                describes, to_string);
  CORDEE_CONSTANT(optional, "augmentation", A, std::uint32_t, subsequence, sub_sequence,
                  subsequences);
}
/// True, or a compile error that states the optional member which has another type or is likely
/// misspelt.
template <class A>
consteval bool has_augmentation_members() {
  return core::compiles<decltype(&check_augmentation<A>)>;
}

/// A number of an augmentation's kind; 0 for kinds that have none.
template <class A>
constexpr std::uint32_t kind_of() {
  static_assert(has_augmentation_members<A>());
  if constexpr (requires { A::subsequence; })
    return A::subsequence;
  else
    return 0;
}

}  // namespace detail::data

}  // namespace cordee::inline CORDEE_ABI
