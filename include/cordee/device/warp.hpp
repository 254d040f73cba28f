// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A product of small matrices as 32 threads make it together, a warp: each holds some words of the
// factors and some of the sums, in the places of PTX's mma.sync.m16n8k16 (of bytes, m16n8k32).
//
//   C[i, j] += sum over k of A[i, k] B[j, k],   i, j < 16,   k < 32 bytes of numbers
//
//   lane 4 g + t holds of A and of B   word w:  line g + 8 (w % 2),        word t + 4 (w / 2) of it
//                      of C            sum i:   row  g + 8 (i / 2 % 2),  column 2 t + i % 2 + 8 (i
//                      / 4)
#pragma once

#include <cstdint>

#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI {

/// What the words of factors are: two numbers of sixteen bits, or four bytes, without a sign in A
/// and with one in B.
struct half_words {
  using sum = float;
};
struct bfloat_words {
  using sum = float;
};
struct byte_words {
  using sum = std::int32_t;
};

/// A lane's share of sixteen lines of eight words.
struct fragment {
  static constexpr int lines = 16, words = 8, bytes = 32;  // of a line
  std::uint32_t word[4] = {};

  CORDEE_HOST_DEVICE static constexpr int line(int lane, int w) { return lane / 4 + w % 2 * 8; }
  CORDEE_HOST_DEVICE static constexpr int place(int lane, int w) { return lane % 4 + w / 2 * 4; }
};

/// A lane's share of C.
template <class Words>
struct fragment_sums {
  typename Words::sum at[8] = {};

  CORDEE_HOST_DEVICE static constexpr int row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
  CORDEE_HOST_DEVICE static constexpr int column(int lane, int i) {
    return lane % 4 * 2 + i % 2 + i / 4 * 8;
  }
};

/// A block of whole warps that copies while it computes, and multiplies matrices.
///
/// `copy_async(to, from, there)` brings 16 bytes, at multiples of 16 bytes, into shared memory, or
/// zeros where they are not `there`: at some time until the thread that asked waits for them, and
/// others see them after a sync. `commit` closes a group of copies, `wait<n>` waits for all groups
/// but the n last ones.
/// `load` takes a warp's fragment of lines in shared memory, `pitch` bytes apart; `load_across` of
/// 16 lines of 16 numbers of 16 bits, each line one k. `multiply` adds A_i B_j' to C_ij. A warp's
/// threads call these three alike.
template <class B>
concept MatrixBlock =
    Block<B> && requires(B b, void* to, const void* from, fragment& f, const fragment (&a)[2],
                         fragment_sums<half_words> (&c)[2][2]) {
      { b.copy_async(to, from, true) } -> std::same_as<void>;
      { b.commit() } -> std::same_as<void>;
      { b.template wait<1>() } -> std::same_as<void>;
      { b.load(f, from, 16) } -> std::same_as<void>;
      { b.load_across(f, from, 16) } -> std::same_as<void>;
      { b.multiply(a, a, c) } -> std::same_as<void>;
    };

}  // namespace cordee::inline CORDEE_ABI
