// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One type for every exact reducer over a link, so that their laws are compiled once a link. That
// bits are the same where a link cannot add is left to the laws over threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <cordee/testing/reducer_laws.hpp>

namespace support {

using namespace cordee;

template <class Link>
struct any_exact {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  std::function<std::size_t(std::size_t, std::size_t)> room;  // numbers, bytes of one
  std::function<void(message<float, cpu, 0>)> mix_floats;
  std::function<void(message<double, cpu, 0>)> mix_doubles;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return room(n, sizeof(Real));
  }
  void mix(message<float, cpu, 0> m, moment, cpu::stream) const { mix_floats(m); }
  void mix(message<double, cpu, 0> m, moment, cpu::stream) const { mix_doubles(m); }
};

template <class Link>
struct any_maker {
  std::function<any_exact<Link>(const Link&)> make;

  any_exact<Link> operator()(const Link& link) const { return make(link); }
  struct no_reducer {};
  no_reducer operator()(const counted<Link>&) const { return {}; }
};

/// Broken laws of the reducer that make(link) returns, as sentences.
template <class Link, class Make, class Launch>
std::string law_breaches(const Make& make, const reducer_law_options& options,
                         const Launch& launch) {
  const any_maker<Link> any{[&make](const Link& link) {
    const auto r = make(link);
    static_assert(r.offers == agreement::exact && r.lossless);
    return any_exact<Link>{link,
                           [r](std::size_t n, std::size_t each) {
                             return each == sizeof(float) ? r.template scratch<float>(n)
                                                          : r.template scratch<double>(n);
                           },
                           [r](message<float, cpu, 0> m) { r.mix(m, moment{}, cpu::stream{}); },
                           [r](message<double, cpu, 0> m) { r.mix(m, moment{}, cpu::stream{}); }};
  }};
  return reducer_laws<Link>(any, options, launch);
}

}  // namespace support
