// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What blocks of whole warps do beyond others (device/warp.hpp), on the host. Copies have arrived
// as late as can be, when they are waited for, and their target is no number from the beginning. A
// product is made by the last of 32 lanes to come, from the words that each holds where each holds
// them, k ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>

#include <cordee/core/error.hpp>
#include <cordee/device/warp.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace support {

/// The numbers of a word: of A, of B.
template <class Words>
struct numbers_of {
  static constexpr int count = 2;
  using narrow =
      std::conditional_t<std::same_as<Words, cordee::half_words>, cordee::half, cordee::bfloat>;
  static float number(std::uint32_t word, int i, bool /*of_a*/) {
    return narrow{static_cast<std::uint16_t>(word >> 16 * i)}.exact();
  }
};
template <>
struct numbers_of<cordee::byte_words> {
  static constexpr int count = 4;
  static std::int32_t number(std::uint32_t word, int i, bool of_a) {
    const auto byte = static_cast<std::uint8_t>(word >> 8 * i);
    return of_a ? byte : static_cast<std::int8_t>(byte);
  }
};

/// Lanes that have come to a product, with their words.
struct gathered_warp {
  const cordee::fragment *a[32] = {}, *b[32] = {};
  void* c[32] = {};
  int M = 0, N = 0, arrived = 0;
};

template <class Words>
void product_of(const gathered_warp& warp) {
  using cordee::fragment;
  using sums = cordee::fragment_sums<Words>;
  using numbers = numbers_of<Words>;
  using sum = typename Words::sum;
  constexpr int depth = fragment::words * numbers::count;
  const auto unpack = [](const fragment* const(&lanes)[32], int which, bool of_a,
                         sum(&to)[fragment::lines][depth]) {
    for (int lane = 0; lane < 32; ++lane)
      for (int w = 0; w < 4; ++w)
        for (int i = 0; i < numbers::count; ++i)
          to[fragment::line(lane, w)][fragment::place(lane, w) * numbers::count + i] =
              numbers::number(lanes[lane][which].word[w], i, of_a);
  };
  for (int m = 0; m < warp.M; ++m) {
    sum a[fragment::lines][depth];
    unpack(warp.a, m, true, a);
    for (int n = 0; n < warp.N; ++n) {
      sum b[fragment::lines][depth];
      unpack(warp.b, n, false, b);
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 8; ++i) {
          sum& c = static_cast<sums*>(warp.c[lane])[m * warp.N + n].at[i];
          for (int k = 0; k < depth; ++k)
            c += a[sums::row(lane, i)][k] * b[sums::column(lane, i)][k];
        }
    }
  }
}

/// A thread's copies on their way.
class copies {
 public:
  void ask(void* to, const void* from, bool there) {
    if (reinterpret_cast<std::uintptr_t>(to) % size != 0 ||
        (there && reinterpret_cast<std::uintptr_t>(from) % size != 0))
      throw cordee::error("an asynchronous copy is of 16 bytes at multiples of 16");
    std::memset(to, 0xff, size);
    waiting_.push_back({to, there ? from : nullptr, group_});
  }
  void commit() { ++group_; }
  void wait(int groups) {
    for (; !waiting_.empty() && waiting_.front().group < group_ - groups; waiting_.pop_front()) {
      const auto& [to, from, group] = waiting_.front();
      if (from != nullptr)
        std::memcpy(to, from, size);
      else
        std::memset(to, 0, size);
    }
  }

 private:
  static constexpr std::size_t size = 16;
  struct copy {
    void* to;
    const void* from;
    int group;
  };
  std::deque<copy> waiting_;
  int group_ = 0;
};

}  // namespace support
