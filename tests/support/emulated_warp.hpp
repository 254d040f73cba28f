// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies and matrix products of a warp (device/warp.hpp), emulated. A copy is complete
// as late as possible, when its group is waited for; until then its target holds NaN bits.
// Fragments are loaded, and products computed, when the last of 32 lanes arrives, k ascending, by
// the lane tables of ptx_fragments.hpp.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/warp.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/kernel_observer.hpp"
#include "tests/support/ptx_fragments.hpp"

namespace support {

/// Number i of a 32-bit word of A, or of B.
template <class Mma>
struct word_numbers {
  static constexpr int count = 2;
  using storage = std::conditional_t<std::same_as<Mma, cordee::detail::device::mma_f16>,
                                     cordee::half, cordee::bfloat>;
  static float number(std::uint32_t word, int i, bool /*of_a*/) {
    return storage{static_cast<std::uint16_t>(word >> 16 * i)}.exact();
  }
};
template <>
struct word_numbers<cordee::detail::device::mma_u8s8> {
  static constexpr int count = 4;
  static std::int32_t number(std::uint32_t word, int i, bool of_a) {
    const auto byte = static_cast<std::uint8_t>(word >> 8 * i);
    return of_a ? byte : static_cast<std::int8_t>(byte);
  }
};

/// An instruction that the lanes of a warp execute together, by its place in the source: an
/// optimizer may duplicate code.
struct warp_instruction {
  std::string_view name;
  std::source_location where;
  bool transposed = false;
  int M = 0, N = 0;

  friend bool operator==(const warp_instruction& a, const warp_instruction& b) {
    return a.name == b.name && a.M == b.M && a.N == b.N && a.where.line() == b.where.line() &&
           a.where.column() == b.where.column() &&
           std::string_view(a.where.file_name()) == b.where.file_name();
  }
};
inline std::string describe(const warp_instruction& i) {
  return cordee::concat(i.name, " (", i.where.file_name(), ":", i.where.line(), ")");
}

/// The operands of the lanes that have arrived at a warp's instruction.
struct gathered_warp {
  std::uint32_t arrived = 0;  // one bit per lane
  warp_instruction instruction;
  const cordee::detail::device::fragment *a[32] = {}, *b[32] = {};  // of mma
  void* c[32] = {};
  const std::byte* rows[32] = {};  // of ldmatrix
  cordee::detail::device::fragment* loaded[32] = {};
};
inline std::string describe_lanes(std::uint32_t lanes) {
  std::string text;
  for (int first = 0; first < 32; ++first) {
    if ((lanes >> first & 1) == 0) continue;
    const int count = std::countr_one(lanes >> first);
    text += cordee::concat(text.empty() ? "" : ", ", first);
    if (count > 1) text += cordee::concat("-", first + count - 1);
    first += count;
  }
  return text;
}

/// One mma instruction: d(16 x 8) += a(16 x k) b(k x 8), the operands as registers per lane.
template <class Mma>
void mma_sync(const std::uint32_t (&a)[32][4], const std::uint32_t (&b)[32][2],
              typename Mma::accumulator* (&c)[32]) {
  using numbers = word_numbers<Mma>;
  using accumulator = typename Mma::accumulator;
  constexpr int depth = 8 * numbers::count;
  accumulator rows[16][depth], columns[8][depth];
  for (int row = 0; row < 8; ++row)
    for (int cell = 0; cell < 4; ++cell)
      for (int i = 0; i < numbers::count; ++i) {
        const int lane = ptx::lane_of[row][cell];
        for (int r = 0; r < 4; ++r)
          rows[ptx::a_register[r].row + row][(ptx::a_register[r].cell + cell) * numbers::count +
                                             i] = numbers::number(a[lane][r], i, true);
        for (int r = 0; r < 2; ++r)
          columns[row][(ptx::b_register[r].cell + cell) * numbers::count + i] =
              numbers::number(b[lane][r], i, false);
      }
  for (int pair = 0; pair < 2; ++pair)
    for (int row = 0; row < 8; ++row)
      for (int cell = 0; cell < 4; ++cell)
        for (int i = 0; i < 2; ++i) {
          accumulator& sum = c[ptx::lane_of[row][cell]][2 * pair + i];
          for (int k = 0; k < depth; ++k)
            sum += rows[ptx::c_register_pair[pair].row + row][k] * columns[2 * cell + i][k];
        }
}

/// C += A B' of all fragments of a warp: each of 16 x 16 by two instructions, as cuda_warp does.
template <class Mma>
[[gnu::noinline]] void multiply_fragments(const gathered_warp& warp) {
  using accumulators = cordee::detail::device::accumulator_fragment<Mma>;
  for (int m = 0; m < warp.instruction.M; ++m)
    for (int n = 0; n < warp.instruction.N; ++n)
      for (int half = 0; half < 2; ++half) {
        std::uint32_t a[32][4], b[32][2];
        typename Mma::accumulator* c[32];
        for (int lane = 0; lane < 32; ++lane) {
          std::memcpy(a[lane], warp.a[lane][m].word, sizeof(a[lane]));
          for (int r = 0; r < 2; ++r) b[lane][r] = warp.b[lane][n].word[2 * half + r];
          c[lane] =
              static_cast<accumulators*>(warp.c[lane])[m * warp.instruction.N + n].value + 4 * half;
        }
        mma_sync<Mma>(a, b, c);
      }
}

/// The registers that ldmatrix reads from four matrices, by the addresses that the lanes pass.
[[gnu::noinline]] inline void load_matrices(const gathered_warp& warp) {
  for (int m = 0; m < 4; ++m)
    for (int row = 0; row < 8; ++row)
      for (int cell = 0; cell < 4; ++cell) {
        std::uint32_t& word = warp.loaded[ptx::lane_of[row][cell]]->word[m];
        if (!warp.instruction.transposed) {
          std::memcpy(&word, warp.rows[ptx::row_lane[m][row]] + 4 * cell, 4);
          continue;
        }
        std::uint16_t two[2];
        for (int i = 0; i < 2; ++i)
          std::memcpy(&two[i], warp.rows[ptx::row_lane[m][2 * cell + i]] + 2 * row, 2);
        word = two[0] | std::uint32_t{two[1]} << 16;
      }
}

/// One thread's asynchronous copies.
class pending_copies {
 public:
  void add(void* to, const void* from, bool valid) {
    if (reinterpret_cast<std::uintptr_t>(to) % size != 0 ||
        (valid && reinterpret_cast<std::uintptr_t>(from) % size != 0))
      throw cordee::error("an asynchronous copy is of 16 bytes at multiples of 16");
    if (observer != nullptr) observer->copy_async(to, valid ? from : nullptr);
    std::memset(to, 0xff, size);
    pending_.push_back({to, valid ? from : nullptr, group_});
  }
  void commit_group() { ++group_; }
  void wait_group(int groups) {
    std::size_t done = 0;
    for (; done < pending_.size() && pending_[done].group < group_ - groups; ++done) {
      const auto& [to, from, group] = pending_[done];
      if (from != nullptr)
        std::memcpy(to, from, size);
      else
        std::memset(to, 0, size);
      if (observer != nullptr) observer->complete_copy(to);
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
  }

 private:
  static constexpr std::size_t size = 16;
  struct copy {
    void* to;
    const void* from;
    int group;
  };
  std::vector<copy> pending_;
  int group_ = 0;
};

}  // namespace support
