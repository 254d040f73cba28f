// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/phantom.hpp>
#include <cordee/precision/fp16.hpp>

using namespace cordee;
using cordee::detail::device::operation_counts;

namespace {

/// What f(stream, x, y) counts, where x and y are 10 floats.
template <class F>
operation_counts counted(const F& f) {
  operation_counts counts;
  const phantom device{counts};
  buffer<float, phantom> x(device, 10), y(device, 10);
  counts = {};  // of clearing the buffers
  f(device.make_stream(), x.span().data, y.span().data);
  return counts;
}

}  // namespace

TEST_CASE("phantom: operations count flops, bytes and reduced bytes, and touch no memory") {
  CHECK(counted([](auto s, float* x, float* y) { add(10, x, y, s); }) ==
        operation_counts{.flops = 10, .bytes = 120, .reduced_bytes = 40});
  CHECK(counted([](auto s, float* x, float*) { divide(10, 4.0f, x, s); }) ==
        operation_counts{.flops = 10, .bytes = 80});
  CHECK(counted([](auto s, float* x, float* y) { add_then_divide(10, 4.0f, x, y, s); }) ==
        operation_counts{.flops = 20, .bytes = 120, .reduced_bytes = 40});
  CHECK(counted([](auto s, float* x, float*) { scale(10, 2.0f, x, s); }) ==
        operation_counts{.flops = 10, .bytes = 80});
  CHECK(counted([](auto s, float* x, float* y) { convert(10, x, y, s); }) ==
        operation_counts{.bytes = 80});
  CHECK(counted([](auto s, float* x, float* y) {
          mix_neighbors(10, x, std::array{0.25, 0.25}, y, s);
        }) == operation_counts{.flops = 70, .bytes = 160, .reduced_bytes = 80});
  half* const q = nullptr;
  fp16::scaling* const k = nullptr;
  CHECK(counted([=](auto s, float* x, float* y) {
          encode<fp16>(std::size_t{10}, x, 1.0f, q, k, y, s);
        }) == operation_counts{.flops = 40, .bytes = 140});
  CHECK(counted([=](auto s, float* x, float*) {
          decode<fp16>(std::size_t{10}, q, k, x, write_mode::overwrite, s);
        }) == operation_counts{.bytes = 60});
  CHECK(counted([=](auto s, float* x, float*) {
          decode<fp16>(std::size_t{10}, q, k, x, write_mode::add, s);
        }) == operation_counts{.flops = 10, .bytes = 100, .reduced_bytes = 40});
  CHECK(counted([](auto s, float*, float*) { for_each(s, 10, [](std::size_t) {}); }) ==
        operation_counts{.flops = 10});
  const std::array<segment, 2> table{segment{"a", kind::weight, 0, 7},
                                     segment{"b", kind::bias, 64, 3}};
  CHECK(counted([&](auto s, float*, float*) { segmented_for<float>(s, table, [] {}); }) ==
        operation_counts{.flops = 10});
  CHECK(counted([&](auto s, float* x, float*) {
          segmented_squares<float>(s, table, span_on<const float, phantom>{x, 67},
                                   span_on<double, phantom>{nullptr, 2});
        }) == operation_counts{.flops = 20, .bytes = 40});
  CHECK(counted([&](auto s, float* x, float* y) {
          const span_on<double, phantom> squares{nullptr, 2};
          segmented_squares<float>(s, table, span_on<const float, phantom>{x, 67}, squares,
                                   span_on<const float, phantom>{y, 67}, squares);
        }) == operation_counts{.flops = 40, .bytes = 80});
  CHECK(counted([](auto s, float*, float*) { launch_single(s, [] {}); }) == operation_counts{});
  CHECK(counted([](auto s, float* x, float* y) { phantom{}.copy(y, x, 40, s); }) ==
        operation_counts{.bytes = 80});
}

TEST_CASE("phantom: spans have sizes, their parts differ, and a default stream counts nothing") {
  buffer<double, phantom> x(phantom{}, std::size_t{1} << 40);
  CHECK(x.size() == std::size_t{1} << 40);
  CHECK(x.span().subspan(0, 5) != x.span().subspan(1, 5));
  add(10, x.span().data, x.span().data, phantom{}.make_stream());
}
