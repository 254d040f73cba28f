// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/input_quantizer.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/nn/int8_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class E>
using odd = int8_fixture<E, convolution<20>, extent{17, 6, 5}>;
template <class E>
using first = int8_fixture<E, convolution<16>, extent{3, 6, 7}>;

}  // namespace

TEST_CASE("int8: training uses the batch's range first, then the running range") {
  odd<direct> fixture(2);
  const auto own = fixture.forward();
  CHECK(fixture.observer.layers[0].observed.has_values());
  const real_range observed = fixture.observer.layers[0].observed;
  CHECK(observed == range_of(fixture.x.size(), fixture.x.data(), {}));
  fixture.low() = observed.low;
  fixture.high() = observed.high;
  CHECK(fixture.forward() == own);
  fixture.high() = 3 * observed.high;
  CHECK(fixture.forward() != own);
  CHECK(fixture.observer.layers[0].name == "conv1");
  CHECK(fixture.observer.layers[0].low_offset == odd<direct>::table::segments[1].offset);
}

TEST_CASE_TEMPLATE("int8: the recorded range is that of the data, without the padding of blocks", T,
                   odd<reference>, odd<direct>, first<direct>) {
  T fixture(2);
  real_range data;
  for (float& v : fixture.x)
    if (v != 0) {  // the padding is zero
      v = std::abs(v) + 0.0625f;
      data.widen({v, v});
    }
  fixture.forward();
  CHECK(fixture.observer.layers[0].observed == data);
}

TEST_CASE("int8: evaluation without a range is an error that names the layer") {
  odd<direct> fixture(1);
  std::string message;
  try {
    fixture.forward(phase::evaluate);
  } catch (const error& e) {
    message = e.what();
  }
  CHECK(message.find("layer \"conv1\" has no range of its input") != std::string::npos);
  CHECK(message.find("calibrate") != std::string::npos);
}

TEST_CASE("int8: infinity and NaN reach the output in training, and do not enter the range") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    odd<direct> fixture(1);
    fixture.low() = -1;
    fixture.high() = 1;
    fixture.x[7] = bad;
    for (const double y : fixture.forward()) CHECK(std::isnan(y));
    CHECK_FALSE(fixture.observer.layers[0].observed.has_values());
    odd<direct> other(1);
    auto w = random_numbers(odd<direct>::p.weights(), 2);
    w[0] = static_cast<double>(bad);
    other.weights(w);
    CHECK(std::isnan(other.forward()[0]));  // of the first filter
  }
}

TEST_CASE("int8: the observed range of micro-batches is their union; of no samples it is empty") {
  odd<direct> fixture(2);
  fixture.forward();
  const real_range before = fixture.observer.layers[0].observed;
  fixture.input(random_numbers(2 * odd<direct>::p.in.size(), 9));
  fixture.forward();
  CHECK(fixture.observer.layers[0].observed.low <= before.low);
  CHECK(fixture.observer.layers[0].observed.high >= before.high);
  odd<direct> none(0);
  CHECK(none.forward().empty());
  CHECK_FALSE(none.observer.layers[0].observed.has_values());
}

TEST_CASE_TEMPLATE("int8: zeros that pad blocks of channels are not counted", T, odd<direct>,
                   first<direct>, first<reference>) {
  T fixture(3);
  auto x = random_numbers(size(3) * T::p.in.size(), 4);
  for (double& v : x) v = (v + 1.01) / 2;  // without zeros
  fixture.input(x);
  fixture.quantization.percentile = 90;
  std::vector<double> expected(histogram_bins::count);
  const std::vector<float> plainly(x.begin(), x.end());
  add_to_histogram(x.size(), plainly.data(), expected, {});
  fixture.forward();
  CHECK(fixture.observer.counts == expected);
  fixture.low() = -1;
  fixture.high() = 0.5f;
  fixture.observer.mode = quantization_observer::run_mode::compared;
  fixture.forward(phase::evaluate);
  CHECK(fixture.observer.layers[0].count == x.size());
  // The zero point is rounded, which moves the range -1 .. 0.5 by half a step at most.
  const double step = 1.5 / 255;
  const auto above = [&](double limit) {
    return static_cast<double>(
        std::count_if(x.begin(), x.end(), [&](double v) { return v > limit; }));
  };
  CHECK(fixture.observer.layers[0].clipped <= above(0.5 - step));
  CHECK(fixture.observer.layers[0].clipped >= above(0.5 + step));
  CHECK(above(0.5 + step) > 100);
}
