// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A body that copies by an algorithm, of which nvcc keeps nothing.
#pragma once

template <class Real>
struct copying_body {
  const Real* from;
  Real* to;

  template <class At>
  constexpr void operator()(At at) const {
    std::copy_n(from, at.size, to);
  }
};
