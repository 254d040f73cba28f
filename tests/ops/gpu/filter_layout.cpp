// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/filter_layout.hpp"

#include <map>
#include <set>
#include <utility>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace support;

TEST_CASE_TEMPLATE("filter_layout: convert rounds to the nearest", N, half, bfloat, float) {
  conversion_is_rounding<N, float>(device_fixture{emulated{1}});
  conversion_is_rounding<N, double>(device_fixture{emulated{2}});
}

TEST_CASE_TEMPLATE("filter_layout: packed weights lie as defined, and gradients are unpacked", N,
                   half, bfloat, float) {
  packing_is_its_definition<N, float>(device_fixture{emulated{1}});
  packing_is_its_definition<N, double>(device_fixture{emulated{2}});
}

TEST_CASE("filter_layout: fewer padded channels or filters than the layer's are a usage error") {
  const convolution_problem p{{9, 4, 4}, 3, 3, 1, 1};
  const float* const none = nullptr;
  float* const out = nullptr;
  const emulated::stream s{};
  CHECK(
      contains(error_message([&] { pack_krsc(p, 8, 8, none, out, s); }), "fewer padded channels"));
  CHECK(contains(error_message([&] { unpack_krsc(p, 16, 2, none, out, write_mode::add, s); }),
                 "fewer padded channels"));
}

namespace {

using detail::ops::filter_tile;
using detail::ops::krsc_layout;

/// Small integers, so that sums are exact.
std::vector<float> as_numbers(const convolution_problem& p) {
  std::vector<float> master(p.weights());
  for (std::size_t i = 0; i < master.size(); ++i)
    master[i] = static_cast<float>(static_cast<int>(i * 7919 % 1021) - 510);
  return master;
}

/// Sectors over bytes / 32 of a walk over the tiles of an array whose numbers have so many bytes.
/// A walk gives a number's row in the tile, its place in the row and its index: 32 adjacent places
/// of a row are a request of a warp, of as many lanes as there are numbers.
template <class Walk>
double sectors_of(const filter_tile& tile, std::size_t bytes, const Walk& walk) {
  std::size_t sectors = 0, numbers = 0;
  for (std::size_t block = 0; block < tile.blocks(); ++block) {
    std::map<std::pair<unsigned, unsigned>, std::set<std::size_t>> touched;
    for (int thread = 0; thread < filter_tile::threads; ++thread)
      walk(block, thread, [&](unsigned row, unsigned place, std::size_t index) {
        for (std::size_t byte = index * bytes; byte < (index + 1) * bytes; ++byte)
          touched[{row, place / 32}].insert(byte / 32);
        ++numbers;
      });
    for (const auto& [request, of] : touched) sectors += of.size();
  }
  return static_cast<double>(32 * sectors) / static_cast<double>(numbers * bytes);
}
double master_sectors(const filter_tile& tile, std::size_t bytes) {
  return sectors_of(tile, bytes, [&](std::size_t block, int thread, const auto& add) {
    tile.for_each_master(block, thread, add);
  });
}
double krsc_sectors(const filter_tile& tile, std::size_t bytes) {
  const unsigned taps = tile.layout.taps;
  return sectors_of(tile, bytes, [&](std::size_t block, int thread, const auto& add) {
    tile.for_each_krsc(block, thread, [&](unsigned k, unsigned i, std::size_t index, bool) {
      add(k, i % taps * tile.channels + i / taps, index);
    });
  });
}
double crsk_sectors(const filter_tile& tile, std::size_t bytes) {
  const unsigned taps = tile.layout.taps;
  return sectors_of(tile, bytes, [&](std::size_t block, int thread, const auto& add) {
    tile.for_each_crsk(block, thread, [&](unsigned k, unsigned i, std::size_t index, bool) {
      add(i / taps, i % taps * tile.filters + k, index);
    });
  });
}

}  // namespace

TEST_CASE("filter_layout: weights move by whole sectors, at most 1.1 of the ideal") {
  struct layer {
    int channels, filters, window;
  };
  for (const auto& [channels, filters, window] :
       {layer{64, 64, 1}, layer{64, 64, 3}, layer{256, 64, 1}, layer{128, 128, 3}, layer{3, 64, 7},
        layer{16, 16, 3}, layer{160, 96, 5}}) {
    const convolution_problem p{{channels, 8, 8}, filters, window, 1, window / 2};
    const krsc_layout of_half(p, (channels + 7) / 8 * 8, filters),
        of_bytes(p, (channels + 15) / 16 * 16, filters);
    INFO(describe(p));
    const float* const master = nullptr;
    half* const packed = nullptr;
    std::byte memory{};
    const detail::ops::pack_filters_kernel<float, half> pack(
        of_half, master, packed, reinterpret_cast<half*>(&memory));  // both orders
    // The stem's filters begin within sectors: its 9,408 weights, of ResNet-50's 25.6 million, are
    // no main stream. A filter's 147 floats are four requests of 128 bytes, each 5 sectors unless
    // it begins at one, and 76 bytes: of eight filters, which begin at eight places of a sector,
    // 182 sectors for 147. Its 392 packed numbers are 12 requests of 64 bytes, of 3 sectors in
    // every second filter, and 16 bytes: 62 sectors for 49.
    const bool is_stem = channels == 3;
    const double bound = is_stem ? 182.0 / 147 : 1.1;
    CHECK(master_sectors(pack.tile, sizeof(float)) <= bound);
    CHECK(krsc_sectors(pack.tile, sizeof(half)) <= (is_stem ? 62.0 / 49 : 1.1));
    CHECK(crsk_sectors(pack.tile, sizeof(half)) <= 1.1);
    if (channels % 32 == 0) {  // others do not begin at sectors
      const std::int8_t* const w = nullptr;
      std::int8_t* const q = nullptr;
      const detail::ops::pack_filters_kernel<std::int8_t, std::int8_t> bytes(of_bytes, w, q, q);
      CHECK(master_sectors(bytes.tile, 1) <= 1.1);
      CHECK(krsc_sectors(bytes.tile, 1) <= 1.1);
    }
    float* const dw = nullptr;
    const detail::ops::unpack_filters_kernel<float, float> unpack(of_half, master, 1, dw,
                                                                  write_mode::add);
    CHECK(krsc_sectors(unpack.tile, sizeof(float)) <= 1.1);
    CHECK(master_sectors(unpack.tile, sizeof(float)) <= bound);
    CHECK(pack.shared_bytes() <= 48 * 1024);
    CHECK(unpack.shared_bytes() <= 48 * 1024);
  }
}

TEST_CASE("filter_layout: one reading packs both orders, each by its definition") {
  const auto s = emulated().make_stream();
  for (const convolution_problem& p :
       {convolution_problem{{9, 4, 4}, 21, 3, 1, 1}, convolution_problem{{40, 4, 4}, 50, 1, 1, 0},
        convolution_problem{{3, 9, 9}, 17, 7, 2, 3},
        convolution_problem{{2, 64, 64}, 3, 67, 1, 33}}) {
    INFO(describe(p));
    const krsc_layout layout(p, (p.in.channels + 7) / 8 * 8, (p.filters + 7) / 8 * 8);
    const auto master = as_numbers(p);
    std::vector<float> krsc(layout.size(), 99), crsk = krsc, wanted_krsc(layout.size(), 0),
                                                wanted_crsk = wanted_krsc;
    for (std::size_t i = 0; i < master.size(); ++i) {
      const std::size_t tap = i % layout.taps, c = i / layout.taps % layout.channels,
                        k = i / layout.taps / layout.channels;
      wanted_krsc[(k * layout.taps + tap) * layout.padded_channels + c] = master[i];
      wanted_crsk[(c * layout.taps + tap) * layout.padded_filters + k] = master[i];
    }
    detail::ops::pack_filters(layout, master.data(), krsc.data(), crsk.data(), s);
    CHECK(krsc == wanted_krsc);
    CHECK(crsk == wanted_crsk);
    std::fill(crsk.begin(), crsk.end(), 99.0f);
    float* const none = nullptr;
    detail::ops::pack_filters(layout, master.data(), none, crsk.data(), s);
    CHECK(crsk == wanted_crsk);

    // Three splits, the second and third of which are two and four times the first.
    std::vector<float> partial, dw(master.size(), 1);
    for (const float factor : {1.0f, 2.0f, 4.0f})
      for (const float w : wanted_krsc) partial.push_back(factor * w);
    detail::ops::unpack_filters(layout, partial.data(), 3, dw.data(), write_mode::add, s);
    for (std::size_t i = 0; i < dw.size(); ++i)
      if (dw[i] != 1 + 7 * master[i]) FAIL("weight ", i);
  }
}

TEST_CASE("filter_layout: a filter's sum is that of its bytes, and 0 for padding") {
  const convolution_problem p{{37, 4, 4}, 5, 3, 1, 1};
  const krsc_layout layout(p, 48, 16);
  std::vector<std::int8_t> w(p.weights());
  std::vector<std::int32_t> sums(16, 99), wanted(16, 0);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
    wanted[i / (w.size() / 5)] += w[i];
  }
  emulated().make_stream().launch_kernel(
      16, detail::ops::filter_sum_kernel{layout, w.data(), sums.data()});
  CHECK(sums == wanted);
}
