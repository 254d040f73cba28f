// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Small exact agreements, whatever the reducer: flags, losses, counts, statistics, first weights.
//
// They travel on lane 1, beside the reducer's traffic, and leave the same bits on every rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/ring.hpp>
#include <cordee/core/series.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// How `agree` joins two ranks' numbers; NaN wins a minimum and a maximum, so it is never lost.
struct sum {
  double operator()(double a, double b) const { return a + b; }
};
struct minimum {
  double operator()(double a, double b) const { return std::isnan(a) || a < b ? a : b; }
};
struct maximum {
  double operator()(double a, double b) const { return std::isnan(a) || a > b ? a : b; }
};

namespace detail {
/// Every rank's `values`, (ranks, n). No business of how they are joined, so compiled once a link.
template <class Link>
std::vector<double> everybodys(const Link& link, std::span<const double> values) {
  const int p = link.size(), r = link.rank();
  const std::size_t n = values.size();
  std::vector<double> heard(n * static_cast<std::size_t>(p));
  const auto row = [&](int rank) {
    return span_on<double, cpu>{heard.data() + n * static_cast<std::size_t>(rank), n};
  };
  std::copy(values.begin(), values.end(), row(r).begin());
  series<to<cpu>> out;
  series<from<cpu>> in;
  for (int peer = 0; peer < p; ++peer) {
    if (peer == r) continue;
    out.push_back({peer, const_bytes(row(r))});
    in.push_back({peer, bytes(row(peer))});
  }
  link.lane(agree_lane)
      .exchange(std::as_const(out).span(), std::as_const(in).span(), cpu::stream{});
  return heard;
}
}  // namespace detail

/// Every rank's `values` (as many on each), joined in the order of ranks, in place.
template <class Link, class Join>
void agree(const Link& link, std::span<double> values, Join join) {
  if (link.size() == 1) return;
  const std::size_t n = values.size();
  const std::vector<double> heard = detail::everybodys(link, values);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = heard[i];
    for (std::size_t at = i + n; at < heard.size(); at += n) values[i] = join(values[i], heard[at]);
  }
}

/// The exact mean over ranks of one range, in place.
template <class Link, class Real, Device D>
void mean(const Link& link, const D& device, span_on<Real, D> what, typename D::stream s) {
  const ring around{link.lane(agree_lane)};
  buffer<std::byte, D> scratch(device, around.template scratch<Real>(what.size));
  around.mix(message<Real, D, 0>{nullptr, what, {}, scratch.span()}, moment{}, s);
}

/// Rank 0's numbers on every rank.
template <class Link, class Real, Device D>
void share(const Link& link, span_on<Real, D> what, typename D::stream s) {
  series<to<D>> out;
  series<from<D>> in;
  if (link.rank() != 0) in.push_back({0, bytes(what)});
  for (int peer = 1; link.rank() == 0 && peer < link.size(); ++peer)
    out.push_back({peer, const_bytes(what)});
  link.lane(agree_lane).exchange(std::as_const(out).span(), std::as_const(in).span(), s);
}

/// Whether all ranks hold the same 64 bits (a fingerprint of a table, of weights).
template <class Link>
bool agrees_everywhere(const Link& link, std::uint64_t fingerprint) {
  // Halves of 32 bits are exact in a double.
  const auto high = static_cast<double>(fingerprint >> 32);
  const auto low = static_cast<double>(fingerprint & 0xffffffffu);
  std::array<double, 4> extremes{high, low, -high, -low};
  agree(link, extremes, maximum{});
  return extremes[0] == -extremes[2] && extremes[1] == -extremes[3];
}

}  // namespace cordee::inline CORDEE_ABI
