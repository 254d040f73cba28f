// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Our kernels, and what the library does on the host, beside the device-wide primitives of CUB and
// Thrust (docs/primitives.md) on one GPU: a line of JSON each, then all as a table. Microseconds of
// one call: minima and medians over interleaved repetitions of graphs of several calls, so that
// launches cost no time of the CPU. Up to a million numbers stay in the L2 cache. Work of the host
// includes the copy, by its own clock. Results that differ end the program with status 1.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/transform.h>

#include <cordee/cordee.hpp>
#include <cordee/thrust.cuh>

#include "benchmarks/comparison.cuh"
#include "benchmarks/host_primitives.cuh"
#include "examples/options.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace primitives {  // named: see gpu_step.cu

using net = resnet<50, fp32, gpu>;
constexpr int bins = histogram_bins::count;

struct identity_op {
  CORDEE_HOST_DEVICE float operator()(float x) const { return x; }
};
struct bin_op {
  CORDEE_HOST_DEVICE int operator()(float x) const { return histogram_bins::index(x); }
};
struct range_op {
  CORDEE_HOST_DEVICE real_range operator()(float x) const { return {x, x}; }
};
struct widen_op {
  CORDEE_HOST_DEVICE real_range operator()(real_range a, const real_range& b) const {
    a.widen(b);
    return a;
  }
};
struct square_op {
  CORDEE_HOST_DEVICE double operator()(float x) const { return 1.0 * x * x; }
};
struct byte_op {
  affine_quantizer<float> k;
  CORDEE_HOST_DEVICE std::uint8_t operator()(float x) const {
    return static_cast<std::uint8_t>(k.quantize(x));
  }
};
struct accumulate_op {
  const std::uint32_t* counts;
  double* sums;
  CORDEE_DEVICE void operator()(std::size_t i) const { sums[i] += counts[i]; }
};
/// Normal numbers, whose first million is repeated to save time.
std::vector<float> draw_numbers(std::size_t n) {
  std::vector<float> x(n);
  random_sequence random(seed, purpose::test, 0, 0);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = i < 1'000'003 ? static_cast<float>(random.normal()) : x[i - 1'000'003];
  return x;
}

void add_passes(bench::comparison& to, const buffer<float, gpu>& x) {
  const std::size_t n = x.size();
  const auto s = to.s;
  const float* const in = x.span().data;
  buffer<float, gpu> y(to.device, n), z(to.device, n);
  float *const ours = y.span().data, *const theirs = z.span().data;
  const auto equal = [&] { return to.read(y) == to.read(z); };
  to.add(
      "copy beside cudaMemcpyAsync", n, false, [=] { for_each_vec(s, n, in, ours, identity_op{}); },
      [=] { s.copy(theirs, in, n * sizeof(float)); }, equal);
  to.add(
      "ReLU beside thrust::transform", n, false, [=] { for_each_vec(s, n, in, ours, relu_op{}); },
      [=] { thrust::transform(thrust_policy(s), in, in + n, theirs, relu_op{}); }, equal);
}

void add_histogram(bench::comparison& to, const std::string& name, const buffer<float, gpu>& x) {
  const std::size_t n = x.size();
  const auto s = to.s;
  const float* const in = x.span().data;
  buffer<double, gpu> ours(to.device, bins), theirs(to.device, bins);
  buffer<std::uint32_t, gpu> counts(to.device, bins);
  double *const our_sums = ours.span().data, *const their_sums = theirs.span().data;
  std::uint32_t* const found = counts.span().data;
  auto count = to.with_scratch([=](void* scratch, std::size_t& size) {
    return cub::DeviceHistogram::HistogramEven(scratch, size,
                                               thrust::make_transform_iterator(in, bin_op{}), found,
                                               bins + 1, 0, bins, static_cast<int>(n), s.handle);
  });
  to.add(
      name, n, false, [=] { add_to_histogram(n, in, our_sums, s); },
      [=]() mutable {
        count();
        for_each(s, bins, accumulate_op{found, their_sums});
      },
      [&] { return to.read(ours) == to.read(theirs); });
}

void add_range(bench::comparison& to, const buffer<float, gpu>& x) {
  const std::size_t n = x.size();
  const auto s = to.s;
  const float* const in = x.span().data;
  const auto running = to.upload(std::vector<float>{-2, 2});
  auto record = to.upload(std::vector<observed_input>(1));
  buffer<std::uint8_t, gpu> bytes(to.device, n), their_bytes(to.device, n);
  buffer<real_range, gpu> found(to.device, 1);
  const quantized_input target{bytes.span().data, running.span().data, running.span().data + 1,
                               record.span().data};
  real_range* const range = found.span().data;
  float *const low = &range->low, *const high = &range->high;
  const auto ours = [=] { quantize_input(n, in, target, s); };
  const auto equal = [&] { return to.read(record)[0].observed == to.read(found)[0]; };
  auto min = to.with_scratch([=](void* scratch, std::size_t& size) {
    return cub::DeviceReduce::Min(scratch, size, in, low, static_cast<int>(n), s.handle);
  });
  auto max = to.with_scratch([=](void* scratch, std::size_t& size) {
    return cub::DeviceReduce::Max(scratch, size, in, high, static_cast<int>(n), s.handle);
  });
  auto both = to.with_scratch([=](void* scratch, std::size_t& size) {
    return cub::DeviceReduce::TransformReduce(scratch, size, in, range, static_cast<int>(n),
                                              widen_op{}, range_op{}, real_range{}, s.handle);
  });
  to.add(
      "range and bytes beside DeviceReduce Min, Max (no bytes)", n, false, ours,
      [=]() mutable { min(), max(); }, equal);
  to.device.clear(range, sizeof *range, s);
  to.add("range and bytes beside DeviceReduce TransformReduce (no bytes)", n, false, ours, both,
         equal);
  std::uint8_t* const out = their_bytes.span().data;
  const byte_op quantize{fit_affine(-2.0f, 2.0f, unsigned_bytes)};
  to.add(
      "range and bytes beside TransformReduce, thrust::transform", n, false, ours,
      [=]() mutable {
        both();
        thrust::transform(thrust_policy(s), in, in + n, out, quantize);
      },
      [&] { return equal() && to.read(bytes) == to.read(their_bytes); });
}

/// The segments of ResNet-50, scaled to about n numbers.
void add_squares(bench::comparison& to, const buffer<float, gpu>& x) {
  const auto s = to.s;
  const auto of_net = net::segments();
  const double scale = std::min(1.0, static_cast<double>(x.size()) / net::parameters());
  std::vector<segment> table;
  std::ranges::copy_if(of_net, std::back_inserter(table),
                       [](const segment& part) { return detail::core::trainable(part.kind); });
  std::vector<int> begins;
  std::size_t used = 0;
  for (segment& part : table) {
    part.size = std::max<std::size_t>(1, static_cast<std::size_t>(scale * part.size));
    part.offset = used;
    begins.push_back(static_cast<int>(used));
    used += part.size;
  }
  begins.push_back(static_cast<int>(used));
  const auto offsets = to.upload(begins);
  const buffer<float, gpu> numbers = to.upload(draw_numbers(used));
  buffer<double, gpu> ours(to.device, table.size()), theirs(to.device, table.size());
  const int *const first = offsets.span().data, parts = static_cast<int>(table.size());
  const float* const in = numbers.span().data;
  double* const sums = theirs.span().data;
  const auto of_ours = ours.span();
  to.add(
      concat("squares of ", parts, " segments beside DeviceSegmentedReduce"), used, false,
      [&] { segmented_squares<float>(s, table, numbers.span(), of_ours); },
      to.with_scratch([=](void* scratch, std::size_t& size) {
        return cub::DeviceSegmentedReduce::Sum(scratch, size,
                                               thrust::make_transform_iterator(in, square_op{}),
                                               sums, parts, first, first + 1, s.handle);
      }),
      [&] {
        return std::ranges::equal(to.read(ours), to.read(theirs),
                                  [](double a, double b) { return std::abs(a - b) <= 1e-12 * b; });
      });
}

void measure(int reps, std::size_t most) {
  bench::comparison to(reps);
  for (const std::size_t n :
       {std::size_t{10'000}, std::size_t{1'000'000}, std::size_t{net::parameters()}}) {
    if (n > most) continue;
    std::vector<float> numbers = draw_numbers(n);
    const auto x = to.upload(numbers);
    add_passes(to, x);
    add_histogram(to, "histogram beside DeviceHistogram", x);
    for (float& number : numbers) number = std::max(number, 0.0f);
    add_histogram(to, "histogram, half of it zeros, beside DeviceHistogram", to.upload(numbers));
    add_range(to, x);
    add_squares(to, x);
    add_selection(to, x);
    add_confusion(to, n);
    add_weights(to, n);
  }
  to.print_table();
}

}  // namespace primitives

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "gpu_primitives: our kernels beside those of CUB and Thrust");
    const int reps = o.positive("reps", 30, "interleaved repetitions");
    const int most = o.positive("most", 1'000'000'000, "numbers at most");
    o.done();
    primitives::measure(reps, static_cast<std::size_t>(most));
  });
}
