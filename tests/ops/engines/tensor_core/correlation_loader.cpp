// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/correlation_loader.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

namespace {

namespace ops = detail::ops;

/// Writes what a block copies, (K steps, stage), to `out`.
template <class Tile, bool OneTap>
struct fetch_kernel {
  using loader = ops::correlation_loader<half, Tile, ops::identity_prologue, OneTap>;
  static constexpr int threads = Tile::threads;
  static constexpr int step = Tile::step_bytes / static_cast<int>(sizeof(half));

  ops::implicit_gemm g;
  const half *in, *w;
  int first_pixel, first_filter;
  std::byte* out;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return loader::stage_bytes; }
  [[nodiscard]] int steps() const { return (g.depth() + step - 1) / step; }

  template <class Block>
  void operator()(Block& b) const {
    std::byte* const stage = b.template shared<std::byte>(shared_bytes());
    const ops::identity_prologue prologue;
    const ops::warp_tile<Tile, ops::mma_type<half>::mma> warp(b.thread());
    loader stages(g, in, w, prologue, step, Tile::step_bytes / 2, first_pixel, first_filter, warp,
                  b.thread());
    for (int k = 0; k < steps(); ++k) {
      stages.fetch(b, stage);
      b.commit_group();
      b.template wait_group<0>();
      b.sync();
      for (int i = b.thread(); i < loader::stage_bytes; i += threads)
        out[k * loader::stage_bytes + i] = stage[i];
      b.sync();
    }
  }
};

/// Number k of row r of A, and of B, by the definition in implicit_gemm.hpp.
struct fetched_matrices {
  const convolution_problem& p;
  const ops::implicit_gemm& g;
  const std::vector<half>&in, &w;
  int samples;

  [[nodiscard]] double a(int pixel, int k) const {
    const extent out = p.out();
    const int n = pixel / (out.height * out.width), i = pixel / out.width % out.height,
              j = pixel % out.width, tap = k / g.channels;
    const int row = i * p.stride - p.padding + tap / p.window,
              column = j * p.stride - p.padding + tap % p.window;
    if (n >= samples || tap >= p.window * p.window || row < 0 || row >= p.in.height || column < 0 ||
        column >= p.in.width)
      return 0;
    return in[size(((n * p.in.height + row) * p.in.width + column) * g.channels + k % g.channels)]
        .exact();
  }
  [[nodiscard]] double b(int filter, int k) const {
    if (filter >= g.filters || k >= g.depth()) return 0;
    return w[size(filter * g.depth() + k)].exact();
  }
};

/// All blocks' K steps against the definition; other memory in the stages is not 0 before.
template <class Tile, bool OneTap>
void check_fetch(const convolution_problem& p, int samples) {
  INFO("tile of ", Tile::columns, ", window ", p.window, ", stride ", p.stride, ", padding ",
       p.padding, ", channels ", p.in.channels);
  using kernel = fetch_kernel<Tile, OneTap>;
  tiled_fixture<half, Tile> fixture;
  fixture.p = p;
  fixture.samples = samples;
  fixture.x = short_numbers<half>(size(samples) * p.in.size(), 1);
  fixture.w = short_numbers<half>(p.weights(), 2);
  const auto in = fixture.in_memory(fixture.x, p.in), w = fixture.packed();
  const ops::implicit_gemm g = ops::fprop_gemm<half>(p, samples);
  const fetched_matrices wanted{p, g, in, w, samples};
  for (int first = 0; first < static_cast<int>(g.pixels()); first += Tile::rows)
    for (int first_filter = 0; first_filter < g.filters; first_filter += Tile::columns) {
      kernel fetch{g, in.data(), w.data(), first, first_filter, nullptr};
      std::vector<std::byte> out(size(fetch.steps()) * kernel::loader::stage_bytes,
                                 std::byte{0x55});
      fetch.out = out.data();
      fixture.at.s.launch_kernel(1, fetch);
      std::size_t wrong = 0;
      for (int k = 0; k < fetch.steps() * kernel::step; ++k)
        for (int row = 0; row < Tile::rows + Tile::columns; ++row) {
          const int in_step = k % kernel::step;
          const auto* const stage = reinterpret_cast<const half*>(
              out.data() + size(k / kernel::step) * kernel::loader::stage_bytes +
              ops::swizzled_rows<Tile::step_bytes>::offset(row, in_step / 8));
          const double value = row < Tile::rows ? wanted.a(first + row, k)
                                                : wanted.b(first_filter + row - Tile::rows, k);
          wrong += stage[in_step % 8].exact() != value;
        }
      CHECK(wrong == 0);
    }
}

template <bool OneTap>
void check_tiles(const convolution_problem& p, int samples) {
  check_fetch<ops::tensor_core_tile<32, 4>, OneTap>(p, samples);
  check_fetch<ops::tensor_core_tile<64, 2>, OneTap>(p, samples);
  check_fetch<ops::tensor_core_tile<128, 2>, OneTap>(p, samples);
}

}  // namespace

TEST_CASE("correlation_loader: the K steps of A and B are those of the definition, else zeros") {
  for (const int channels : {5, 40, 64}) {
    for (const int stride : {1, 2}) {
      check_tiles<false>({{channels, 6, 5}, 33, 3, stride, 1}, 7);
      check_tiles<true>({{channels, 6, 5}, 33, 1, stride, 0}, 7);
    }
    check_tiles<true>({{channels, 6, 5}, 70, 1, 1, 1}, 3);  // reads padding
    check_tiles<false>({{channels, 7, 5}, 12, 5, 2, 2}, 3);
  }
}

TEST_CASE("correlation_loader: the widest window that a mask of taps holds, and one beyond") {
  tiled_fixture<> fixture;
  fixture.p = {{1, 16, 15}, 2, detail::ops::max_taps, 1, 7};
  fixture.samples = 1;
  fixture.x = short_numbers<half>(fixture.p.in.size(), 1);
  fixture.w = short_numbers<half>(fixture.p.weights(), 2);
  auto y = fixture.output();
  fixture.fprop(detail::ops::identity_prologue{}, detail::ops::store_epilogue<half>{y.data()});
  CHECK(fixture.numbers(y) == as<half>(fixture.exact_output(fixture.x)));

  detail::ops::expect_supported(detail::ops::fprop_gemm<half>(fixture.p, 1));
  fixture.p.window = detail::ops::max_taps + 1;
  CHECK_THROWS_AS(detail::ops::expect_supported(detail::ops::fprop_gemm<half>(fixture.p, 1)),
                  usage_error);
}
