// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers over the double of NCCL: their laws on the host's memory, and their mean on a GPU's,
// which is the way that ranks with GPUs take.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/packing.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/on_double.hpp"

namespace support {

/// Broken laws of the reducer that make(link) returns, as sentences.
template <class Make>
std::string law_breaches(const Make& make) {
  return law_breaches<nccl>(make, {.ranks = {1, 2, 3, 5, 8}}, launch_nccl);
}

/// Of x_i = p rank + i, whose mean is p (p - 1) / 2 + i, what is wrong afterwards.
template <class Make>
std::string wrong_on_device(const Make& make) {
  constexpr std::size_t n = 1'003;
  for (const int p : {1, 2, 3, 5, 8}) {
    std::atomic<int> wrong{0};
    launch_nccl(
        p,
        [&](nccl link) {
          const auto reducer = make(link);
          const auto s = on_double::open();
          std::vector<float> x(n);
          for (std::size_t i = 0; i < n; ++i)
            x[i] = static_cast<float>(p * link.rank()) + static_cast<float>(i);
          std::vector<std::byte> scratch(reducer.template scratch<float>(n));
          reducer.mix(
              message<float, on_double, 0>{
                  nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
              moment{}, s);
          s.finish();
          on_double::close(s);
          for (std::size_t i = 0; i < n; ++i)
            wrong += x[i] != static_cast<float>(p * (p - 1) / 2) + static_cast<float>(i);
        },
        std::chrono::seconds(30));
    if (wrong > 0) return text(wrong.load(), " numbers are wrong over ", p, " ranks");
  }
  return "";
}

}  // namespace support
