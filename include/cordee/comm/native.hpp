// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by the transport's own means: one shot over shared memory (threads), or whatever a
// communication library thinks best.
//
//   x <- (x_0 + x_1 + ... + x_{p-1}) / p, as the transport does it
#pragma once

#include <string>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct native {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  template <class Real, Device D>
    requires NativeMeanOn<Link, Real, D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    link.mean(m.what, s);
  }

  [[nodiscard]] std::string describe() const {
    return text("the transport's own mean over ", link.size(), " ranks: exact mean");
  }
};
template <class Link>
native(Link) -> native<Link>;

}  // namespace cordee::inline CORDEE_ABI
