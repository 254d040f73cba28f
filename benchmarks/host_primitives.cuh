// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the library does on the host, beside primitives on the GPU (gpu_primitives.cu).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/sequence.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>

#include <cordee/cordee.hpp>
#include <cordee/thrust.cuh>

#include "benchmarks/comparison.cuh"

namespace primitives {

using namespace cordee;
using words = std::vector<std::uint32_t>;
constexpr int classes = 1000;
constexpr std::uint64_t seed = 1;

struct magnitude_op {
  CORDEE_HOST_DEVICE std::uint32_t operator()(float x) const {
    return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  }
};
struct cell_op {
  const int *labels, *predicted;
  CORDEE_HOST_DEVICE int operator()(int i) const { return labels[i] * classes + predicted[i]; }
};
/// Number k of draw_weights(), with CUDA's functions; its cos() would need local memory.
struct normal_op {
  double deviation;
  CORDEE_DEVICE float operator()(std::uint32_t k) const {
    const auto u = cordee::detail::core::philox({k, 0, 0, 0}, seed);
    const auto uniform = [&](int i) {
      return static_cast<double>((std::uint64_t{u[i]} << 32 | u[i + 1]) >> 11) * 0x1p-53;
    };
    const double radius = sqrt(-2 * log1p(-uniform(0)));
    return static_cast<float>(deviation * (radius * cospi(2 * uniform(2))));
  }
};

/// The 1 % of the numbers that `gathered` sends, which it selects on the host.
inline void add_selection(bench::comparison& to, const buffer<float, gpu>& x) {
  const std::size_t n = x.size();
  const auto s = to.s;
  const float* const in = x.span().data;
  const top_k select{};
  std::vector<std::byte> code(select.bytes<float>(n));
  buffer<std::uint32_t, gpu> memory(to.device, 4 * n);
  std::uint32_t *const keys = memory.span().data, *const sorted = keys + n,
                       *const from = keys + 2 * n, *const places = keys + 3 * n;
  auto sort = to.with_scratch([=](void* scratch, std::size_t& size) {
    return cub::DeviceRadixSort::SortPairsDescending(scratch, size, keys, sorted, from, places,
                                                     static_cast<int>(n), 0, 31, s.handle);
  });
  to.add(
      "largest 1 % on the host beside DeviceRadixSort", n, true,
      [&] { select.encode(n, to.read(x).data(), code.data()); },
      [=]() mutable {
        thrust::transform(thrust_policy(s), in, in + n, keys, magnitude_op{});
        thrust::sequence(thrust_policy(s), from, from + n);
        sort();
      },
      [&] {
        words ours(select.count(n)), theirs = to.read(memory);
        for (std::size_t k = 0; k < ours.size(); ++k)
          std::memcpy(&ours[k], code.data() + 8 * k, sizeof ours[k]);
        theirs.erase(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(3 * n));
        theirs.resize(ours.size());
        std::ranges::sort(ours), std::ranges::sort(theirs);
        return ours == theirs;
      });
}

/// Adds the confusion of n labels and predicted classes.
inline void add_confusion(bench::comparison& to, std::size_t n) {
  const auto s = to.s;
  std::vector<int> drawn(2 * n);
  random_sequence random(seed, purpose::test, 1, 0);
  for (int& k : drawn) k = static_cast<int>(random.below(classes));
  const auto pairs = to.upload(drawn);
  const int *const labels = pairs.span().data, *const predicted = labels + n;
  constexpr int cells = classes * classes;
  buffer<std::uint32_t, gpu> counts(to.device, cells);
  std::uint32_t* const found = counts.span().data;
  words ours;
  to.add(
      "confusion matrix on the host beside DeviceHistogram", n, true,
      [&] {
        const std::vector<int> host = to.read(pairs);
        ours.assign(cells, 0);
        for (std::size_t i = 0; i < n; ++i)
          ++ours[static_cast<std::size_t>(host[i] * classes + host[n + i])];
      },
      to.with_scratch([=](void* scratch, std::size_t& size) {
        const auto in = thrust::make_transform_iterator(thrust::make_counting_iterator(0),
                                                        cell_op{labels, predicted});
        return cub::DeviceHistogram::HistogramEven(scratch, size, in, found, cells + 1, 0, cells,
                                                   static_cast<int>(n), s.handle);
      }),
      [&] { return ours == to.read(counts); });
}

inline void add_weights(bench::comparison& to, std::size_t n) {
  const auto s = to.s;
  buffer<float, gpu> theirs(to.device, n);
  float* const out = theirs.span().data;
  const std::vector<segment> table{{"w", kind::weight, 0, n}};
  const std::vector<cordee::detail::nn::initializer> initial{{0, 0.0025}};
  std::vector<float> ours;
  to.add(
      "first weights on the host beside thrust::tabulate", n, true,
      [&] {
        ours = cordee::detail::nn::draw_weights<float>(table, initial, n, seed);
        s.copy(out, ours.data(), n * sizeof(float));
      },
      [=] { thrust::tabulate(thrust_policy(s), out, out + n, normal_op{std::sqrt(0.0025)}); },
      [&] {
        return std::ranges::equal(ours, to.read(theirs), [](float a, float b) {
          return std::abs(a - b) <= 2e-7f * std::abs(b);
        });
      });
}

}  // namespace primitives
