// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What torch.ao 2.15, NVIDIA's modelopt 0.47 and onnxruntime 1.32 compute: rows of
// quantization_goldens.py. Running ranges, gradients and entropy bounds are of torch 1.13.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace support::quantization_goldens {

/// The same tensors as in the script, by name: quantiles of the logistic distribution, 65,536 of
/// them where the tail is long.
inline std::vector<float> tensor(std::string_view name) {
  constexpr std::array<std::string_view, 5> long_tails{"squared", "cubed", "rectified cube", "sinh",
                                                       "exponential"};
  const bool is_long = std::ranges::find(long_tails, name) != long_tails.end();
  const std::size_t n = is_long ? 65536 : 4096;
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = (static_cast<double>(i) + 0.5) / static_cast<double>(n),
                 x = std::log(u / (1 - u));
    if (is_long) {
      out[i] = static_cast<float>(name == "squared" ? x * std::abs(x)
                                  : name == "cubed" ? x * x * x
                                  : name == "sinh"  ? std::sinh(x / 2)
                                  : name == "exponential"
                                      ? std::exp(x / 2)
                                      : std::max(x, 0.0) * std::max(x, 0.0) * std::max(x, 0.0));
      continue;
    }
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

/// MovingAverageMinMaxObserver(0.01)'s range, scale and zero point after each of these tensors.
struct running_range {
  std::string_view name;
  float low, high, scale;
  int zero_point;
};
inline constexpr std::array<running_range, 5> running_ranges{{
    {"shifted", -3.25269771F, 1.25269783F, 0.0176682174F, 184},
    {"logistic", -3.30902863F, 1.33152878F, 0.0181982648F, 182},
    {"outlier", -3.27593827F, 4.31821346F, 0.0297809858F, 110},
    {"rectified", -3.24317884F, 4.36513901F, 0.029836541F, 109},
    {"logistic", -3.29960489F, 4.41284561F, 0.0302449036F, 109},
}};

/// Numbers before the quantizer of scale 1/4, so many quarters of a step above the lowest byte's,
/// and where autograd passes the gradient of their fake quantization.
inline constexpr std::array<int, 12> quarters{-5,   -3,   -2,   -1,   0,    509,
                                              1018, 1020, 1021, 1022, 1023, 1024};
struct gradient {
  int zero_point;
  std::array<float, 12> passed;
};
inline constexpr std::array<gradient, 4> gradients{{
    {0, {0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}},
    {3, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
    {126, {0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}},
    {255, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
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

/// The bound that HistogramCalibrator's entropy gives a tensor's magnitudes.
struct entropy_bound {
  std::string_view name;
  float bound;
};
inline constexpr std::array<entropy_bound, 9> entropy_bounds{{
    {"logistic", 9.13579082F},
    {"rectified", 9.01079082F},
    {"outlier", 300},
    {"shifted", 3.25269771F},
    {"squared", 52.0012283F},
    {"cubed", 306.777557F},
    {"rectified cube", 407.438934F},
    {"sinh", 24.0413551F},
    {"exponential", 48.0830765F},
}};

/// The range that onnxruntime's percentile calibration gives a tensor, without (100 - percent) % of
/// it at either end.
struct percentile {
  std::string_view name;
  double percent;
  float low, high;
};
inline constexpr std::array<percentile, 12> percentiles{{
    {"logistic", 75, -0.981383324F, 1.22226906F},
    {"logistic", 99, -4.48760033F, 4.72848511F},
    {"logistic", 99.9, -6.69125271F, 6.93213749F},
    {"rectified", 75, 0, 1.09115028F},
    {"rectified", 99, 0, 4.60219097F},
    {"rectified", 99.9, 0, 6.81089115F},
    {"outlier", 75, 0, 0.87890625F},
    {"outlier", 99, 0, 4.39453125F},
    {"outlier", 99.9, 0, 6.73828125F},
    {"shifted", 75, -1.27693796F, -0.72740984F},
    {"shifted", 99, -2.1536417F, 0.149293661F},
    {"shifted", 99.9, -2.70316982F, 0.701998234F},
}};

}  // namespace support::quantization_goldens
