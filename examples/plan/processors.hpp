// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Seconds that a layer takes on a processor, modelled from its operations and bytes.
//
//   max(operations / (0.6 of the peak), bytes / (0.6 of the memory's rate), one launch) + overhead
//
// The two fractions are one choice for all processors; plan's --flops-efficiency and
// --bandwidth-efficiency change them. The overhead, which a pass over a layer takes whatever the
// number of images, is 0 unless given: it matters where a processor has few images. docs/scale.md
// has what the model says of published rates.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace plan {

/// Peaks as their makers print them; fp16: with matrix units where there are some. No watts: not
/// known.
struct processor {
  std::string_view name;
  double fp32_flops, fp16_flops, bandwidth, memory_bytes, watts;
};
inline constexpr std::array processors{
    processor{"k20", 3.5e12, 3.5e12, 208e9, 5e9, 225},
    processor{"knl", 6.1e12, 6.1e12, 450e9, 16e9, 215},
    processor{"p40", 11.8e12, 11.8e12, 346e9, 24e9, 250},
    processor{"p100", 10.6e12, 21.2e12, 732e9, 16e9, 300},
    processor{"v100", 15.7e12, 125e12, 900e9, 16e9, 300},
    processor{"tpu_v3", 123e12, 123e12, 900e9, 32e9, 0},
    processor{"a100", 19.5e12, 312e12, 2.0e12, 80e9, 400},
    processor{"h100", 67e12, 989e12, 3.35e12, 80e9, 700},
    processor{"h200", 67e12, 989e12, 4.8e12, 141e9, 700},
};

struct efficiency {
  double flops = 0.6, bandwidth = 0.6;
  double overhead = 0;  // seconds of a pass over a layer
};

/// `bytes_a_number` is 2 for fp16 and bf16, 4 for fp32.
inline double roofline_seconds(const processor& p, const efficiency& e, int bytes_a_number,
                               double operations, double numbers, double launches) {
  constexpr double launch = 5e-6;
  const double peak = bytes_a_number == 2 ? p.fp16_flops : p.fp32_flops;
  return std::max({operations / (e.flops * peak),
                   numbers * bytes_a_number / (e.bandwidth * p.bandwidth), launches * launch}) +
         launches * e.overhead;
}

}  // namespace plan
