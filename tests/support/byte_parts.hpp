// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of a byte convolution's parts, as threads share them: each sum is computed once, and is
// that of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/engines/direct/int8/byte_region.hpp>
#include <cordee/ops/engines/direct/int8/byte_sample.hpp>

#include "tests/support/byte_engines.hpp"

namespace support {

/// Empty if run_samples of `count` parts has the sums of run. Kernel: with the functions of
/// byte_correlation_by, on blocks of V channels.
template <int V, class Kernel>
std::string parts_of_bytes(const convolution_problem& p, std::size_t samples, std::size_t count) {
  namespace ops = cordee::detail::ops;
  const Kernel kernel(p);
  const std::size_t in = ops::sample_size(p.in, V), out = ops::sample_size(p.out(), V);
  const auto x = random_integers<std::uint8_t>(samples * in, 1, 0, 255);
  const auto weights = random_integers<std::int8_t>(p.weights(), 2, -128, 127);
  std::vector<std::int8_t> packed(kernel.packed_size());
  kernel.pack(weights.data(), packed.data());
  const ops::affine_quantizer<float> bytes{.scale = 1, .zero_point = 0};
  std::vector<std::int32_t> whole(samples * out), sums(whole), times(whole), initial(out);
  const cpu device(1);
  kernel.run(static_cast<int>(samples), x.data(), bytes, packed.data(), nullptr, whole.data(),
             device.make_stream());
  ops::byte_scratch memory;
  kernel.reserve(memory, samples);
  for (std::size_t i = 0; i < count; ++i)
    kernel.run_samples(
        memory, samples, [&](std::size_t n) { return x.data() + n * in; },
        ops::byte_quantizer<V>(bytes), 0, packed.data(), initial.data(),
        [&](std::size_t n, const ops::byte_sums_chunk& c) {
          for (int b = 0; b < c.blocks; ++b)
            for (std::size_t k = 0; k < c.pixels * V; ++k) {
              const std::size_t block = static_cast<std::size_t>(c.filter_block + b),
                                at = n * out + (block * p.out().pixels() + c.first) * V + k;
              sums[at] = c.sums[static_cast<std::size_t>(b) * c.pixels * V + k];
              ++times[at];
            }
        },
        cordee::detail::core::equal_part{i, count});
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (times[i] != 1 || sums[i] != whole[i])
      return concat("number ", i, " of ", count, " parts is computed ", times[i], " times as ",
                    sums[i], ", not once as ", whole[i]);
  return "";
}

}  // namespace support
