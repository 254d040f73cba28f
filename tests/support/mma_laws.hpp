// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of ldmatrix and mma (device/warp.hpp) on any device.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/warp.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

namespace mma = detail::device;

template <class Mma>
inline constexpr bool is_bytes = std::same_as<Mma, mma::mma_u8s8>;

/// What lanes pass to ldmatrix or ldmatrix_trans: the places of the other operand, or the row of
/// the neighbouring lane.
enum class lane_fault { none, places_of_a, places_of_b, rows_of_a, rows_of_b };

/// Warp v: C(v) += A(v) B(v)', 32 x 16, twice, with A and B in shared memory as rows or transposed.
template <class Mma, bool Transposed, lane_fault Fault = lane_fault::none>
struct product_kernel {
  static constexpr int threads = 64, pitch = Transposed ? 80 : 48, warp_bytes = 64 * 48;
  const std::byte *a, *b;        // (warps, 32, 32 bytes), (warps, 16, 32 bytes)
  typename Mma::accumulator* c;  // (warps, 32, 16)

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return 2 * warp_bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& block) const {
    const int warp = block.thread() / 32, lane = block.thread() % 32;
    std::byte* const a_tile = block.template shared<std::byte>(shared_bytes()) + warp * warp_bytes;
    std::byte* const b_tile = a_tile + 32 * 48;
    store_tile(a + warp * 32 * 32, 32, a_tile, lane);
    store_tile(b + warp * 16 * 32, 16, b_tile, lane);
    block.sync();
    detail::device::fragment a_fragments[2], b_fragments[1];
    detail::device::accumulator_fragment<Mma> sums[2][1] = {};
    const auto place = [](int of, bool rows) {
      return rows ? detail::device::rows_first(of) : detail::device::chunks_first(of);
    };
    const int a_lane = Fault == lane_fault::rows_of_a ? lane ^ 1 : lane,
              b_lane = Fault == lane_fault::rows_of_b ? lane ^ 1 : lane;
    const bool a_by_rows = Transposed == (Fault == lane_fault::places_of_a),
               b_by_rows = Transposed != (Fault == lane_fault::places_of_b);
    for (int half = 0; half < 2; ++half)
      load(block, a_fragments[half], a_tile + half * 16 * (Transposed ? 2 : pitch),
           place(a_lane, a_by_rows));
    load(block, b_fragments[0], b_tile, place(b_lane, b_by_rows));
    block.mma(a_fragments, b_fragments, sums);
    block.mma(a_fragments, b_fragments, sums);
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 8; ++i)
        c[(warp * 32 + half * 16 + detail::device::accumulator_fragment<Mma>::row(lane, i)) * 16 +
          detail::device::accumulator_fragment<Mma>::column(lane, i)] = sums[half][0].value[i];
  }

 private:
  template <class Block>
  CORDEE_DEVICE static void load(Block& block, detail::device::fragment& f, const std::byte* tile,
                                 const detail::device::tile_chunk& at) {
    const std::byte* const row = tile + at.row * pitch + at.chunk * 16;
    if constexpr (Transposed)
      block.ldmatrix_trans(f, row);
    else
      block.ldmatrix(f, row);
  }
  CORDEE_DEVICE static void store_tile(const std::byte* from, int rows, std::byte* to, int lane) {
    for (int i = lane; i < rows * 16; i += 32) {
      const int row = i / 16, pair = i % 16;  // pair of bytes
      std::byte* const place =
          Transposed ? to + pair * pitch + row * 2 : to + row * pitch + pair * 2;
      place[0] = from[2 * i];
      place[1] = from[2 * i + 1];
    }
  }
};

template <class Mma, bool Transposed, lane_fault Fault = lane_fault::none, class D>
bool product_is_right(const device_fixture<D>& at) {
  constexpr int count = is_bytes<Mma> ? 4 : 2, depth = 8 * count;
  using storage =
      std::conditional_t<std::same_as<Mma, detail::device::mma_f16>, cordee::half, bfloat>;
  const auto numbers = [&](std::size_t n, std::uint64_t which, std::vector<std::byte>& bytes) {
    random_sequence draw(7, purpose::test, which, 0);
    std::vector<double> v(n);
    for (double& x : v)
      if constexpr (is_bytes<Mma>) {
        const auto byte = static_cast<std::uint8_t>(draw.below(256));
        x = which == 1 ? byte : static_cast<std::int8_t>(byte);
        bytes.push_back(static_cast<std::byte>(byte));
      } else {
        x = draw.below(64) / 16.0 - 2;
        const std::uint16_t bits = nearest<storage>(x).bits;
        bytes.push_back(static_cast<std::byte>(bits & 255));
        bytes.push_back(static_cast<std::byte>(bits >> 8));
      }
    return v;
  };
  std::vector<std::byte> a_bytes, b_bytes;
  const auto a = numbers(2 * 32 * depth, 1, a_bytes), b = numbers(2 * 16 * depth, 2, b_bytes);
  std::vector<typename Mma::accumulator> wanted(2 * 32 * 16);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t k = 0; k < depth; ++k)
      wanted[i] += static_cast<typename Mma::accumulator>(2 * a[i / 16 * depth + k] *
                                                          b[(i / 512 * 16 + i % 16) * depth + k]);
  const auto device_a = at.put(a_bytes), device_b = at.put(b_bytes);
  auto c = at.put(std::vector<typename Mma::accumulator>(wanted.size()));
  at.s.launch_kernel(1, product_kernel<Mma, Transposed, Fault>{
                            device_a.span().data, device_b.span().data, c.span().data});
  return at.get(c) == wanted;
}

template <class Mma, class D>
void check_products(const device_fixture<D>& at) {
  CHECK(product_is_right<Mma, false>(at));
  if constexpr (!is_bytes<Mma>) CHECK(product_is_right<Mma, true>(at));
}

}  // namespace support
