// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the lanes of a warp hold the elements of matrices, from the figures of the PTX ISA for
// ldmatrix, mma.m16n8k16 (16-bit numbers) and mma.m16n8k32 (bytes). The emulated tensor core uses
// these tables and nothing of device/warp.hpp, so that the tests detect errors in the latter.
#pragma once

namespace support::ptx {

/// In all these figures 32 lanes cover 8 rows of 4 cells of 32 bits: lane_of[row][cell].
inline constexpr int lane_of[8][4] = {{0, 1, 2, 3},     {4, 5, 6, 7},     {8, 9, 10, 11},
                                      {12, 13, 14, 15}, {16, 17, 18, 19}, {20, 21, 22, 23},
                                      {24, 25, 26, 27}, {28, 29, 30, 31}};

/// The 8 x 4 cells that one register of all lanes holds begin at this row and cell of the matrix.
struct register_tile {
  int row, cell;
};
/// A of mma (16 rows m, 32 bytes of k): the registers a0 .. a3 in cells of 32 bits, two 16-bit
/// numbers or four bytes of consecutive k.
inline constexpr register_tile a_register[4] = {{0, 0}, {8, 0}, {0, 4}, {8, 4}};
/// B of mma (8 columns n, 32 bytes of k): rows here are n, and cells as for A.
inline constexpr register_tile b_register[2] = {{0, 0}, {0, 4}};
/// C of mma (16 rows m, 8 columns n): a cell is two adjacent columns, in the registers c0, c1 for
/// the first pair and c2, c3 for the second.
inline constexpr register_tile c_register_pair[2] = {{0, 0}, {8, 0}};

/// ldmatrix: lane 8 m + r gives the address of row r of matrix m, which is 8 rows of 16 bytes.
/// Without .trans register m of a lane is its cell of matrix m. With .trans a cell is two adjacent
/// rows of one 16-bit column: register m of lane_of[column][pair] holds rows 2 pair, 2 pair + 1.
inline constexpr int row_lane[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                       {8, 9, 10, 11, 12, 13, 14, 15},
                                       {16, 17, 18, 19, 20, 21, 22, 23},
                                       {24, 25, 26, 27, 28, 29, 30, 31}};

}  // namespace support::ptx
