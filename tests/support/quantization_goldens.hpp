// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What torch.ao 2.15 and NVIDIA's modelopt 0.47 compute: rows of quantization_goldens.py.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace support::quantization_goldens {

/// The same tensors as in the script, by name: quantiles of the logistic distribution.
inline std::vector<float> tensor(std::string_view name) {
  constexpr std::size_t n = 4096;
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = (static_cast<double>(i) + 0.5) / n, x = std::log(u / (1 - u));
    out[i] = static_cast<float>(name == "logistic"  ? x + 0.125
                                : name == "shifted" ? 0.25 * x - 1
                                                    : std::max(x, 0.0));
  }
  if (name == "outlier") out.back() = 300;
  return out;
}

inline constexpr std::array<float, 8> points{-9, -1, -0.01F, 0, 0.3F, 1.75F, 7, 400};

/// MinMaxObserver's scale and zero point, `points` behind them, and the mean square error of the
/// tensor behind HistogramObserver's.
struct activation {
  std::string_view name;
  float scale;
  int zero_point;
  std::array<float, 8> points;
  double histogram_error;
};
inline constexpr std::array<activation, 4> activations{{
    {"logistic",
     0.0706728697F,
     126,
     {-8.90478134F, -0.989420176F, 0, 0, 0.282691479F, 1.76682174F, 6.99661398F, 9.11680031F},
     0.000415898575},
    {"rectified",
     0.0353364348F,
     0,
     {0, 0, 0, 0, 0.282691479F, 1.76682174F, 6.99661398F, 9.01079082F},
     5.21161161e-05},
    {"outlier", 1.17647064F, 0, {0, 0, 0, 0, 0, 1.17647064F, 7.05882359F, 300}, 0.0575813203},
    {"shifted",
     0.0176682174F,
     184,
     {-3.25095201F, -1.00708842F, -0.0176682174F, 0, 0.300359696F, 1.25444341F, 1.25444341F,
      1.25444341F},
     2.60179452e-05},
}};

/// Weights of four filters: PerChannelMinMaxObserver's symmetric scale, and the weights behind it.
struct filter {
  std::array<float, 4> weights;
  float scale;
  std::array<float, 4> fake_quantized;
};
inline constexpr std::array<filter, 4> filters{{
    {{0.5F, -1.27F, 0.3F, 0.0049F}, 0.00999999978F, {0.5F, -1.26999998F, 0.299999982F, 0}},
    {{0.02F, 0.01F, -0.005F, 0},
     0.000157480317F,
     {0.0199999996F, 0.0100787403F, -0.00503937015F, 0}},
    {{0, 0, 0, 0}, 1.1920929e-07F, {0, 0, 0, 0}},
    {{-3, 2.9F, 1e-3F, 1.5F}, 0.0236220472F, {-3, 2.90551186F, 0, 1.51181102F}},
}};

/// The same histograms as in the script, by name.
inline std::vector<double> histogram(std::string_view name) {
  std::vector<double> h(1024);
  for (std::int64_t k = 0; k < 1024; ++k) {
    std::int64_t count = 1000000 / (1 + k * k / 64);
    if (name == "gaps") count = k == 1020 ? 40 : k % 3 == 1 ? 0 : count;
    if (name == "uniform") count = 1000;
    if (name == "zeros") count = k == 0 ? 50000000 : 200000 / (1 + k);
    if (name == "spike") count = k == 400 ? 100000 : 30000 / (1 + k / 8);
    h[static_cast<std::size_t>(k)] = static_cast<double>(count);
  }
  return h;
}

struct entropy {
  std::string_view name;
  std::size_t levels, bins;
};
inline constexpr std::array<entropy, 10> entropies{{{"tail", 128, 960},
                                                    {"tail", 256, 1024},
                                                    {"gaps", 128, 853},
                                                    {"gaps", 256, 1024},
                                                    {"uniform", 128, 1024},
                                                    {"uniform", 256, 1024},
                                                    {"zeros", 128, 1024},
                                                    {"zeros", 256, 1024},
                                                    {"spike", 128, 1024},
                                                    {"spike", 256, 999}}};

}  // namespace support::quantization_goldens
