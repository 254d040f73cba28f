// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of the layout conversions on any device.
#pragma once

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/filter_layout.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/engines.hpp"

namespace support {

/// Rounding to N, for counts around multiples of the block size.
template <Number N, std::floating_point Real, class D>
void conversion_is_rounding(const device_fixture<D>& at) {
  for (const std::size_t n : {0u, 1u, 257u, 1024u, 2049u}) {
    const auto from = random_numbers(n, n);
    auto to = at.template put_as<N>(std::vector<double>(n, 99));
    convert(n, at.template put_as<Real>(from).span().data, to.span().data, at.s);
    CHECK(at.numbers(to) == as<N>(as<Real>(from)));
  }
}

/// Packing by the definition, with zeros in the padding; unpacking, whatever the padding holds.
template <Number N, std::floating_point Real, class D>
void packing_is_its_definition(const device_fixture<D>& at) {
  struct padded {
    convolution_problem p;
    int channels, filters;
  };
  for (const auto& [p, channels, filters] : {padded{{{3, 9, 9}, 5, 7, 2, 3}, 8, 8},
                                             {{{8, 4, 4}, 16, 3, 1, 1}, 8, 16},
                                             {{{9, 4, 4}, 3, 3, 1, 1}, 12, 3},
                                             {{{5, 4, 4}, 7, 1, 1, 0}, 5, 16},
                                             {{{1, 4, 4}, 1, 3, 1, 1}, 4, 4}}) {
    INFO(describe(p), ", padded to ", channels, " and ", filters);
    const auto master = random_numbers(p.weights(), 1), before = random_numbers(p.weights(), 2);
    const std::size_t taps = size(p.window * p.window), c_count = size(p.in.channels);
    std::vector<double> krsc(size(filters) * taps * size(channels)), surrounded(krsc.size(), 1e4),
        sum(before);
    for (std::size_t i = 0; i < master.size(); ++i) {
      const std::size_t tap = i % taps, c = i / taps % c_count, k = i / taps / c_count;
      const std::size_t there = (k * taps + tap) * size(channels) + c;
      krsc[there] = surrounded[there] = as<N>(master[i]);
      sum[i] = as<Real>(before[i] + as<N>(master[i]));
    }

    auto packed = at.template put_as<N>(std::vector<double>(krsc.size(), 99));
    pack_krsc(p, channels, filters, at.template put_as<Real>(master).span().data,
              packed.span().data, at.s);
    CHECK(at.numbers(packed) == krsc);

    packed = at.template put_as<N>(surrounded);
    auto back = at.template put_as<Real>(before);
    unpack_krsc(p, channels, filters, packed.span().data, back.span().data, write_mode::add, at.s);
    CHECK(at.numbers(back) == sum);
    unpack_krsc(p, channels, filters, packed.span().data, back.span().data, write_mode::overwrite,
                at.s);
    CHECK(at.numbers(back) == as<N>(master));
  }
}

}  // namespace support
