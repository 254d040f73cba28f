// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Persistent blocks beside one block per tile, on any device.
#pragma once

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/epilogue.hpp>
#include <cordee/ops/engines/tensor_core/persistent.hpp>
#include <cordee/ops/engines/tensor_core/prologue.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

/// Layers whose tiles have 32, 64 and 128 columns, with their numbers of samples: tiles that are
/// not full, in pixels and in filters; of K steps less than one, a part of the third, as many as
/// stages, a part of the sixth.
struct persistent_case {
  convolution_problem p;
  int samples;
};
inline const std::vector<persistent_case> persistent_cases{
    {{{3, 1, 1}, 5, 1, 1, 0}, 1},      {{{72, 16, 8}, 32, 1, 1, 0}, 2},
    {{{128, 9, 15}, 27, 1, 1, 0}, 3},  {{{163, 7, 11}, 30, 1, 1, 0}, 9},
    {{{72, 16, 8}, 64, 1, 1, 0}, 2},   {{{128, 9, 15}, 45, 1, 1, 0}, 3},
    {{{163, 7, 11}, 61, 1, 1, 0}, 9},  {{{72, 16, 8}, 256, 1, 1, 0}, 2},
    {{{128, 9, 15}, 131, 1, 1, 0}, 2}, {{{163, 7, 11}, 383, 1, 1, 0}, 4}};

/// Of numbers whose sums are rounded: another order of additions would show. `most_blocks` is
/// launch_persistent's.
template <class N, class D, class Most>
void persistent_has_the_bits_of_a_block_per_tile(const device_fixture<D>& at,
                                                 const persistent_case& of,
                                                 const Most& most_blocks) {
  using namespace detail::ops;
  const implicit_gemm g = fprop_gemm<N>(of.p, of.samples);
  const auto channels = static_cast<std::size_t>(g.channels),
             filters = static_cast<std::size_t>(g.filters);
  const auto x = at.template put_as<N>(normal_numbers(g.pixels() * channels, 1)),
             w = at.template put_as<N>(normal_numbers(filters * channels, 2));
  auto plain = at.put(std::vector<N>(g.pixels() * filters, nearest<N>(99))),
       y = at.put(std::vector<N>(g.pixels() * filters, nearest<N>(99)));
  launch_correlation(g, x.span().data, w.span().data, identity_prologue{},
                     store_epilogue<N>{plain.span().data}, at.s);
  launch_persistent(g, x.span().data, w.span().data, identity_prologue{},
                    store_epilogue<N>{y.span().data}, at.s, most_blocks);
  const std::vector<N> wanted = at.get(plain), got = at.get(y);
  CAPTURE(of.p.in.channels);
  CAPTURE(of.p.filters);
  CHECK(std::memcmp(wanted.data(), got.data(), wanted.size() * sizeof(N)) == 0);
}

}  // namespace support
