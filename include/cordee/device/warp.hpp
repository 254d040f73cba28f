// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of one warp (32 threads) on tensor cores, by PTX's mma.sync.m16n8k16 (16-bit
// numbers) and m16n8k32 (bytes), two of which make one product of 16 x 16:
//
//   C[i, j] += sum over k of  A[i, k] B[j, k]        i, j < 16,   k < 32 bytes of numbers
//
// A and B are fragments of 16 rows of eight 32-bit words. Lane 4 g + t holds
//
//   of A   word w    row g + 8 (w % 2),       word t + 4 (w / 2) of the row
//   of B   word w    row g + 8 (w / 2),       word t + 4 (w % 2) of the row
//   of C   value i   row g + 8 (i / 2 % 2),   column 2 t + i % 2 + 8 (i / 4)
//
// so that words 2 h and 2 h + 1 of B, an aligned pair of registers, are an operand of
// instruction h.
#pragma once

#include <concepts>
#include <cstdint>

#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Number types of a product: A and B in fp16, or in bf16; or A unsigned and B signed bytes.
struct mma_f16 {
  using accumulator = float;
};
struct mma_bf16 {
  using accumulator = float;
};
struct mma_u8s8 {
  using accumulator = std::int32_t;
};

/// One lane's registers of A or B.
struct fragment {
  static constexpr int rows = 16, row_bytes = 32;
  std::uint32_t word[4] = {};
};

/// 16 bytes in a tile of rows in shared memory: row and 16-byte chunk of the row.
struct tile_chunk {
  int row, chunk;
};
/// What a lane passes to ldmatrix for A, or to ldmatrix_trans for B, of 16 rows of two chunks; and
/// to ldmatrix for B, or to ldmatrix_trans for A. Rows are k for ldmatrix_trans.
CORDEE_HOST_DEVICE constexpr tile_chunk rows_first(int lane) { return {lane % 16, lane / 16}; }
CORDEE_HOST_DEVICE constexpr tile_chunk chunks_first(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2};
}

/// One lane's registers of C.
template <class Mma>
struct accumulator_fragment {
  typename Mma::accumulator value[8] = {};

  CORDEE_HOST_DEVICE static constexpr int row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
  CORDEE_HOST_DEVICE static constexpr int column(int lane, int i) {
    return lane % 4 * 2 + i % 2 + i / 4 * 8;
  }
};

/// A thread block of whole warps with asynchronous copies and matrix products.
///
/// `copy_async(to, from, valid)` copies 16 bytes, both addresses multiples of 16, to shared memory,
/// or writes zeros unless `valid`. The copy is complete for the calling thread after its
/// `wait_group`, for others after a `sync` behind that. `commit_group` closes a group of copies;
/// `wait_group<n>` waits for all groups but the last n.
/// `ldmatrix` reads a fragment as four matrices of eight rows of 16 bytes: matrix m becomes word m,
/// and lane 8 m + r passes the address of its row r. `ldmatrix_trans` transposes each matrix, of
/// 16-bit numbers. `mma` adds A_i B_j' to C_ij. These three are collective over the warp.
template <class B>
concept MmaBlock =
    ThreadBlock<B> && requires(B b, void* to, const void* from, fragment& f, const fragment (&a)[2],
                               accumulator_fragment<mma_f16> (&c)[2][2]) {
      { b.copy_async(to, from, true) } -> std::same_as<void>;
      { b.commit_group() } -> std::same_as<void>;
      { b.template wait_group<1>() } -> std::same_as<void>;
      { b.ldmatrix(f, from) } -> std::same_as<void>;
      { b.ldmatrix_trans(f, from) } -> std::same_as<void>;
      { b.mma(a, a, c) } -> std::same_as<void>;
    };

}  // namespace cordee::inline CORDEE_ABI::detail::device
