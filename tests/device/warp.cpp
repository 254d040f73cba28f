// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/warp.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/mma_laws.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace support;

namespace {

/// Reverses the two halves of shared memory, with or without the waits and barriers that this
/// needs.
template <bool HasWait, bool HasSync>
struct reverse_kernel {
  static constexpr int threads = 64;
  const std::byte* in;
  std::byte* out;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 2 * threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int t = b.thread();
    for (int group = 0; group < 2; ++group) {
      const int at = (group * threads + t) * 16;
      b.copy_async(memory + at, in + at, t != 5);
      b.commit_group();
    }
    b.template wait_group<HasWait ? 1 : 2>();
    if constexpr (HasSync) b.sync();
    std::memcpy(out + t * 16, memory + (threads - 1 - t) * 16, 16);
    b.template wait_group<0>();
    b.sync();
    std::memcpy(out + (threads + t) * 16, memory + (2 * threads - 1 - t) * 16, 16);
  }
};
template <class Body>
std::vector<std::byte> reversed(std::uint64_t seed) {
  std::vector<std::byte> in(2 * 64 * 16), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i % 251);
  emulated{seed}.make_stream().launch_kernel(1, Body{in.data(), out.data()});
  return out;
}
std::vector<std::byte> right() {
  std::vector<std::byte> out;
  for (std::size_t group = 0; group < 2; ++group)
    for (std::size_t t = 64; t-- > 0;)
      for (std::size_t i = 0; i < 16; ++i)
        out.push_back(static_cast<std::byte>(t == 5 ? 0 : ((group * 64 + t) * 16 + i) % 251));
  return out;
}

/// Copies to shared memory that other threads may not have read yet.
struct early_copy_kernel {
  static constexpr int threads = 32;
  const float* in;
  float* out;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    float* const memory = b.template shared<float>(4 * threads);
    const int t = b.thread();
    memory[4 * t] = static_cast<float>(t);
    b.sync();
    out[t] = memory[4 * (threads - 1 - t)];
    b.copy_async(memory + 4 * t, in, true);
    b.commit_group();
    b.template wait_group<0>();
  }
};
struct unaligned_copy_kernel {
  static constexpr int threads = 32;
  const float* in;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * 16; }
  template <class Block>
  void operator()(Block& b) const {
    b.copy_async(b.template shared<float>(4 * threads) + b.thread(), in, true);
  }
};
/// One lane skips a product (and not the barrier), or one thread both.
template <bool Product>
struct divergent_mma_kernel {
  static constexpr int threads = 64;
  template <class Block>
  void operator()(Block& b) const {
    const detail::device::fragment a[1]{};
    detail::device::accumulator_fragment<detail::device::mma_f16> c[1][1]{};
    if (b.thread() != 40) {
      b.mma(a, a, c);
      b.sync();
    } else if constexpr (!Product) {
      b.sync();
    }
  }
};

/// How one lane leaves the others before an ldmatrix.
enum class divergence { none, skipped, another_place, another_instruction };
template <divergence Divergence>
struct divergent_load_kernel {
  static constexpr int threads = 64;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 16 * 32; }
  template <class Block>
  void operator()(Block& b) const {
    const std::byte* const tile = b.template shared<std::byte>(shared_bytes());
    detail::device::fragment f;
    const bool leaves = Divergence != divergence::none && b.thread() == 40;
    if (!leaves)
      b.ldmatrix(f, tile);
    else if (Divergence == divergence::another_place)
      b.ldmatrix(f, tile);
    else if (Divergence == divergence::another_instruction)
      b.ldmatrix_trans(f, tile);
    b.sync();
  }
};
template <divergence Divergence>
std::string load_message() {
  return error_message(
      [] { emulated::stream{}.launch_kernel(1, divergent_load_kernel<Divergence>{}); });
}

/// C = A B', 16 x 16 of 16-bit numbers, with the words of A, B and C put where warp.hpp says, or
/// not.
enum class lane_map { right, words_of_a, words_of_b, rows_of_b, columns_of_c };
template <lane_map Map>
struct placed_product_kernel {
  static constexpr int threads = 32;
  const std::uint32_t *a, *b;  // (16, 8) words
  float* c;                    // (16, 16)
  template <class Block>
  void operator()(Block& block) const {
    using accumulators = detail::device::accumulator_fragment<detail::device::mma_f16>;
    const int lane = block.thread(), g = lane / 4, t = lane % 4;
    detail::device::fragment a_fragments[1], b_fragments[1];
    accumulators sums[1][1] = {};
    for (int w = 0; w < 4; ++w) {
      const auto word_of = [&](const std::uint32_t* rows, int row, bool down_first) {
        const int down = down_first ? w % 2 : w / 2, across = down_first ? w / 2 : w % 2;
        return rows[(row + 8 * down) * 8 + t + 4 * across];
      };
      a_fragments[0].word[w] = word_of(a, g, Map != lane_map::words_of_a);
      b_fragments[0].word[w] =
          word_of(b, Map == lane_map::rows_of_b ? g ^ 1 : g, Map == lane_map::words_of_b);
    }
    block.mma(a_fragments, b_fragments, sums);
    for (int i = 0; i < 8; ++i) {
      const int column = Map == lane_map::columns_of_c ? 4 * t + i % 2 + 2 * (i / 4)
                                                       : accumulators::column(lane, i);
      c[accumulators::row(lane, i) * 16 + column] = sums[0][0].value[i];
    }
  }
};
/// Is it the product?
template <lane_map Map>
bool places_are_right() {
  std::vector<std::uint32_t> a(16 * 8), b(16 * 8);
  std::vector<float> c(16 * 16, -1), wanted(16 * 16);
  const auto half_of = [](int x) { return nearest<cordee::half>(x); };
  const auto a_number = [](int i, int k) { return (3 * i + 5 * k) % 7; };
  const auto b_number = [](int j, int k) { return (2 * j + 3 * k) % 5; };
  const auto word = [&](const auto& number, int row, int w) {
    return half_of(number(row, 2 * w)).bits | std::uint32_t{half_of(number(row, 2 * w + 1)).bits}
                                                  << 16;
  };
  for (int i = 0; i < 16; ++i)
    for (int w = 0; w < 8; ++w) {
      a[static_cast<std::size_t>(8 * i + w)] = word(a_number, i, w);
      b[static_cast<std::size_t>(8 * i + w)] = word(b_number, i, w);
    }
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j)
      for (int k = 0; k < 16; ++k)
        wanted[static_cast<std::size_t>(16 * i + j)] +=
            static_cast<float>(a_number(i, k) * b_number(j, k));
  emulated::stream{}.launch_kernel(1, placed_product_kernel<Map>{a.data(), b.data(), c.data()});
  return c == wanted;
}

}  // namespace

TEST_CASE(
    "warp, emulated: a copy is complete for its thread after wait_group, for others after the "
    "barrier") {
  for (std::uint64_t seed = 1; seed < 4; ++seed)
    CHECK(reversed<reverse_kernel<true, true>>(seed) == right());
}

TEST_CASE(
    "warp, emulated: a missing wait, a missing barrier and an early copy show under every order") {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    CHECK(reversed<reverse_kernel<false, true>>(seed) != right());
    CHECK(reversed<reverse_kernel<true, false>>(seed) != right());
    alignas(16) const float in[4] = {};
    std::vector<float> out(32), wanted(32);
    for (std::size_t t = 0; t < 32; ++t) wanted[t] = static_cast<float>(31 - t);
    emulated{seed}.make_stream().launch_kernel(1, early_copy_kernel{in, out.data()});
    CHECK(out != wanted);
  }
}

TEST_CASE("warp, emulated: unaligned copies, and products that a lane skips, are errors") {
  alignas(16) const float in[4] = {};
  const emulated::stream s{};
  CHECK(contains(error_message([&] { s.launch_kernel(1, unaligned_copy_kernel{in}); }),
                 "16 bytes at multiples of 16"));
  CHECK(contains(error_message([&] { s.launch_kernel(1, divergent_mma_kernel<false>{}); }),
                 "0 of 64 threads of block 0 have finished, 31 wait for their warps"));
  CHECK(contains(error_message([&] { s.launch_kernel(1, divergent_mma_kernel<true>{}); }),
                 "1 of 64 threads"));
}

TEST_CASE_TEMPLATE(
    "warp, emulated: ldmatrix and mma compute the product of matrices in shared memory", Mma,
    detail::device::mma_f16, detail::device::mma_bf16, detail::device::mma_u8s8) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) check_products<Mma>(device_fixture{emulated{seed}});
}

TEST_CASE("warp, emulated: the lanes of a warp arrive at one ldmatrix, or an error names them") {
  CHECK(load_message<divergence::none>() == "");
  const std::string skipped = load_message<divergence::skipped>();
  CHECK(contains(skipped, "divergent barrier: 0 of 64 threads of block 0 have finished, 31 wait"));
  CHECK(contains(skipped, "of warp 1 the lanes 0-7, 9-31 wait at ldmatrix ("));
  CHECK(contains(skipped, "divergent_load_kernel"));
  const std::string placed = load_message<divergence::another_place>();
  CHECK(contains(placed, "divergent warp: lane "));
  CHECK(contains(placed, " of warp 1 is at ldmatrix ("));
  CHECK(contains(placed, "divergent_load_kernel"));
  CHECK(contains(load_message<divergence::another_instruction>(), "ldmatrix_trans ("));
}

TEST_CASE("warp, emulated: words that lie elsewhere than the lanes of mma expect show") {
  CHECK(places_are_right<lane_map::right>());
  CHECK(!places_are_right<lane_map::words_of_a>());
  CHECK(!places_are_right<lane_map::words_of_b>());
  CHECK(!places_are_right<lane_map::rows_of_b>());
  CHECK(!places_are_right<lane_map::columns_of_c>());
}

TEST_CASE_TEMPLATE(
    "warp, emulated: addresses that another lane or the other operand should pass show", Mma,
    detail::device::mma_f16, detail::device::mma_bf16, detail::device::mma_u8s8) {
  const device_fixture at{emulated{1}};
  const auto check = [&]<bool Transposed>(std::bool_constant<Transposed>) {
    CHECK(product_is_right<Mma, Transposed>(at));
    CHECK(!product_is_right<Mma, Transposed, lane_fault::places_of_a>(at));
    CHECK(!product_is_right<Mma, Transposed, lane_fault::places_of_b>(at));
    CHECK(!product_is_right<Mma, Transposed, lane_fault::rows_of_a>(at));
    CHECK(!product_is_right<Mma, Transposed, lane_fault::rows_of_b>(at));
  };
  check(std::false_type{});
  if constexpr (!is_bytes<Mma>) check(std::true_type{});
}

// The formulas are of the PTX ISA, "Matrix fragments for mma.m16n8k16" and "mma.m16n8k32", by
// element and lane; the tables that the emulator uses are of its figures, by register and matrix.
TEST_CASE("warp, emulated: the lane tables are the formulas of the PTX ISA") {
  struct place {
    int row, column;
    bool operator==(const place&) const = default;
  };
  for (int row = 0; row < 8; ++row)
    for (int cell = 0; cell < 4; ++cell) {
      const int lane = ptx::lane_of[row][cell], group = lane >> 2, member = lane % 4;
      const auto in_a = [&](int i, int per_word) {
        const ptx::register_tile& tile = ptx::a_register[i / per_word];
        return place{tile.row + row, (tile.cell + cell) * per_word + i % per_word};
      };
      const auto in_b = [&](int i, int per_word) {  // (k, n)
        const ptx::register_tile& tile = ptx::b_register[i / per_word];
        return place{(tile.cell + cell) * per_word + i % per_word, tile.row + row};
      };
      for (int i = 0; i < 8; ++i)  // of 16 bits
        CHECK(in_a(i, 2) == place{i < 2 || (4 <= i && i < 6) ? group : group + 8,
                                  member * 2 + (i & 1) + (i < 4 ? 0 : 8)});
      for (int i = 0; i < 16; ++i)  // bytes
        CHECK(in_a(i, 4) == place{i < 4 || (8 <= i && i < 12) ? group : group + 8,
                                  member * 4 + (i & 3) + (i < 8 ? 0 : 16)});
      for (int i = 0; i < 4; ++i)
        CHECK(in_b(i, 2) == place{member * 2 + (i & 1) + (i < 2 ? 0 : 8), group});
      for (int i = 0; i < 8; ++i)
        CHECK(in_b(i, 4) == place{member * 4 + (i & 3) + (i < 4 ? 0 : 16), group});
      for (int i = 0; i < 4; ++i)
        CHECK(place{ptx::c_register_pair[i / 2].row + row, 2 * cell + i % 2} ==
              place{i < 2 ? group : group + 8, member * 2 + (i & 1)});
    }
  for (int lane = 0; lane < 32; ++lane) CHECK(ptx::row_lane[lane / 8][lane % 8] == lane);
}
