// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers over the test double of NCCL: their laws in host memory, and their mean in GPU memory,
// which is the path of ranks with GPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/nccl_double_gpu.hpp"

namespace support {

/// The laws that the reducer of make(comm) violates, as text.
template <class Make>
std::string reducer_violations(const Make& make) {
  return reducer_violations<nccl>(make, {.ranks = {1, 2, 3, 5, 8}}, launch_nccl);
}

/// Reduces x_i = p rank + i, whose mean is p (p - 1) / 2 + i, in GPU memory; describes wrong
/// results.
template <class Make>
std::string wrong_on_device(const Make& make) {
  constexpr std::size_t n = 1'003;
  for (const int p : {1, 2, 3, 5, 8}) {
    std::atomic<int> wrong{0};
    launch_nccl(
        p,
        [&](nccl comm) {
          const auto reducer = make(comm);
          const auto s = nccl_double_gpu::make_stream();
          std::vector<float> x(n);
          for (std::size_t i = 0; i < n; ++i)
            x[i] = static_cast<float>(p * comm.rank()) + static_cast<float>(i);
          std::vector<std::byte> scratch(reducer.template scratch<float>(n));
          reducer.mix(
              bucket_view<float, nccl_double_gpu, 0>{
                  nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
              step_info{}, s);
          s.finish();
          nccl_double_gpu::close(s);
          for (std::size_t i = 0; i < n; ++i)
            wrong += x[i] != static_cast<float>(p * (p - 1) / 2) + static_cast<float>(i);
        },
        std::chrono::seconds(30));
    if (wrong > 0) return concat(wrong.load(), " elements are wrong over ", p, " ranks");
  }
  return "";
}

}  // namespace support
