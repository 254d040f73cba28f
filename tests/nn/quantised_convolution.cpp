// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A quantised convolution without a network.
template <class Engine, class L, extent In>
struct lonely {
  using kit = backend<int8, cpu, Engine>;
  using table = parameter_table<L, In, true>;
  static constexpr convolution_problem p = L::problem(In);

  int samples;
  placement place{table::segments, 0, 1, 0};
  node_of<L, kit, In> layer = L::template bind<kit, In>(place);
  arena<float, cpu> memory{cpu(1), table::segments, 2};
  activations<cpu> store{cpu(1), place.activation};
  gradient_buffers<float, cpu> buffers{cpu(1)};
  buffer<std::byte, cpu> image{cpu(1), place.image};
  buffer<double, cpu> scratch{cpu(1), 0};
  buffer<float, cpu> workspace{cpu(1), 0};
  quantisation_settings quantisation;
  quantisation_watch& watch = quantisation.watch;
  int in_block = kit::block(In.channels), out_block = kit::block(p.filters);
  std::vector<float> x;

  explicit lonely(int n) : samples(n) {
    static_assert(table::segments.size() == 3);
    watch.begin(table::segments);
    CHECK(watch.layers.size() == place.quantised);
    unseen();
    weights(random_numbers(p.weights(), 2));
    input(random_numbers(size(n) * In.size(), 1));
  }
  float& low() { return memory.plane(0).data[table::segments[1].offset]; }
  float& high() { return memory.plane(0).data[table::segments[2].offset]; }
  void unseen() {
    low() = static_cast<float>(table::beginnings[1].mean);
    high() = static_cast<float>(table::beginnings[2].mean);
  }
  void input(const std::vector<double>& numbers) {
    x = blocked<float>(numbers, In, samples, in_block);
  }
  void weights(const std::vector<double>& w) {
    for (std::size_t i = 0; i < w.size(); ++i) memory.plane(0).data[i] = static_cast<float>(w[i]);
    const cpu here(1);
    layer.publish(publish_pass<kit>{memory.plane(0).data, image.span().data, here, {}});
  }
  std::vector<double> forward(phase what = phase::train) {
    const forward_pass<kit> pass{
        image.span().data, memory.plane(0).data, samples, what, {}, &store, &scratch, {}, false,
        &quantisation};
    const float* y = layer.forward(pass, x.data());
    return plain(std::vector<float>(y, y + size(samples) * sample_size(p.out(), out_block)),
                 p.out(), samples, out_block);
  }
  /// dx; dw is in plane 1.
  std::vector<double> backward(const std::vector<double>& dy, std::vector<double> before = {}) {
    buffers.reset(size(samples) * place.largest);
    float* const sent = buffers.take();
    const auto there = blocked<float>(dy, p.out(), samples, out_block);
    std::copy(there.begin(), there.end(), sent);
    const backward_pass<kit> pass{image.span().data,
                                  memory.plane(1).data,
                                  into::overwrite,
                                  samples,
                                  {},
                                  &buffers,
                                  &scratch,
                                  &workspace,
                                  {}};
    auto onto =
        blocked<float>(before.empty() ? std::vector<double>(size(samples) * In.size()) : before, In,
                       samples, in_block);
    int announced = 0;
    const auto ready = [&](std::size_t k) { announced += k == 0 ? 1 : 99; };
    float* dx = layer.backward(pass, sent, {before.empty() ? nullptr : onto.data(), true}, ready);
    CHECK(announced == 1);
    return plain(std::vector<float>(dx, dx + onto.size()), In, samples, in_block);
  }
  std::vector<float> dw() { return {memory.plane(1).data, memory.plane(1).data + p.weights()}; }

  /// The layer's weights and input as integers, and their scales.
  struct integers {
    std::vector<double> w, x;
    std::vector<float> scales;
    affine<float> k;
  };
  integers as_integers() {
    integers out;
    std::vector<std::int8_t> q(p.weights());
    const std::size_t each = q.size() / size(p.filters);
    for (std::size_t f = 0; f < size(p.filters); ++f)
      out.scales.push_back(
          quantise_channel<float>(each, memory.plane(0).data + f * each, q.data() + f * each));
    out.w.assign(q.begin(), q.end());
    out.k = fit_affine(low(), high(), unsigned_bytes);
    for (const double v : plain(x, In, samples, in_block))
      out.x.push_back(out.k.quantise(static_cast<float>(v)) - out.k.zero);
    return out;
  }
};

template <class E>
using odd = lonely<E, convolution<20>, extent{17, 6, 5}>;
template <class E>
using strided = lonely<E, convolution<16, 5, 2>, extent{16, 7, 8}>;
template <class E>
using first = lonely<E, convolution<16>, extent{3, 6, 7}>;

}  // namespace

TEST_CASE_TEMPLATE("int8: a pass on simulated values has the same bits, by either engine", T,
                   odd<reference>, odd<direct>, strided<reference>, strided<direct>,
                   first<reference>, first<direct>) {
  T at(3);
  at.low() = -0.7f;
  at.high() = 0.9f;
  const auto in = at.as_integers();
  // Integers that fit in floats: fp32's own convolution of them is exact, whatever the order.
  harness<direct, float> fp32{T::p, 3};
  auto y = fp32.fprop(in.x, in.w);
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(std::abs(y[i]) < 0x1p24);
    y[i] = in.k.scale * in.scales[i / T::p.out().pixels() % size(T::p.filters)] *
           static_cast<float>(y[i]);
  }
  CHECK(at.forward() == y);
  CHECK(at.forward(phase::evaluate) == y);
}

TEST_CASE_TEMPLATE("int8: where scales are powers of two, fp32 on what quantisation leaves agrees",
                   T, odd<reference>, odd<direct>, first<direct>) {
  T at(2);
  auto w = random_numbers(T::p.weights(), 2);
  const std::size_t each = w.size() / size(T::p.filters);
  for (std::size_t f = 0; f < size(T::p.filters); ++f) w[f * each] = 127.0 / 64;
  at.weights(w);
  at.low() = -127.0f / 128;
  at.high() = 1;  // 255 steps of 1 / 128
  const auto in = at.as_integers();
  CHECK(in.k.scale == 0x1p-7f);
  CHECK(in.scales[0] == 0x1p-6f);
  auto left = in;
  for (double& v : left.w) v *= 0x1p-6;
  for (double& v : left.x) v *= 0x1p-7;
  harness<direct, float> fp32{T::p, 2};
  CHECK(at.forward() == fp32.fprop(left.x, left.w));
}

TEST_CASE_TEMPLATE("int8: backward is fp32's on what quantisation leaves, masked where it clipped",
                   T, odd<reference>, odd<direct>, strided<direct>, first<direct>) {
  T at(3);
  at.low() = -0.5f;
  at.high() = 0.6f;
  at.forward();
  const auto in = at.as_integers();
  std::vector<double> w, x;
  for (std::size_t i = 0; i < in.w.size(); ++i)
    w.push_back(static_cast<float>(in.w[i]) * in.scales[i / (in.w.size() / size(T::p.filters))]);
  for (const double v : in.x) x.push_back(static_cast<float>(v) * in.k.scale);
  const auto dy = random_numbers(size(3) * T::p.out().size(), 5);
  harness<typename T::kit::engine, float> fp32{T::p, 3};
  auto dx = fp32.dgrad(dy, w);
  const auto plain_x = plain(at.x, T::p.in, 3, at.in_block);
  std::size_t masked = 0;
  for (std::size_t i = 0; i < dx.size(); ++i)
    if (!in.k.passes(static_cast<float>(plain_x[i]))) {
      dx[i] = 0;
      ++masked;
    }
  CHECK(masked > dx.size() / 4);
  CHECK(masked < dx.size() / 2 + dx.size() / 8);
  CHECK(at.backward(dy) == dx);
  const auto dw = fp32.wgrad(x, dy);
  CHECK(at.dw() == std::vector<float>(dw.begin(), dw.end()));
  const auto before = random_numbers(dx.size(), 6);
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] = static_cast<float>(before[i]) + static_cast<float>(dx[i]);
  CHECK(at.backward(dy, before) == dx);
}

TEST_CASE("int8: training begins with the batch's own range, then keeps to the running one") {
  odd<direct> at(2);
  const auto own = at.forward();
  CHECK(at.watch.layers[0].seen.seen());
  const real_range seen = at.watch.layers[0].seen;
  CHECK(seen == range_of(at.x.size(), at.x.data(), {}));
  at.low() = seen.low;
  at.high() = seen.high;
  CHECK(at.forward() == own);
  at.high() = 3 * seen.high;
  CHECK(at.forward() != own);
  CHECK(at.watch.layers[0].name == "conv1");
  CHECK(at.watch.layers[0].low == odd<direct>::table::segments[1].offset);
}

TEST_CASE("int8: evaluation without a range refuses, by the layer's name") {
  odd<direct> at(1);
  std::string said;
  try {
    at.forward(phase::evaluate);
  } catch (const error& e) {
    said = e.what();
  }
  CHECK(said.find("layer \"conv1\" does not know the range of its input") != std::string::npos);
  CHECK(said.find("calibrate") != std::string::npos);
}

TEST_CASE("int8: what is not finite in training reaches the output, and is no range") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    odd<direct> at(1);
    at.low() = -1;
    at.high() = 1;
    at.x[7] = bad;
    for (const double y : at.forward()) CHECK(std::isnan(y));
    CHECK_FALSE(at.watch.layers[0].seen.seen());
    odd<direct> other(1);
    auto w = random_numbers(odd<direct>::p.weights(), 2);
    w[0] = static_cast<double>(bad);
    other.weights(w);
    CHECK(std::isnan(other.forward()[0]));  // of the first filter
  }
}

TEST_CASE("int8: a range that is seen over micro-batches is the widest; no samples see nothing") {
  odd<direct> at(2);
  at.forward();
  const real_range one = at.watch.layers[0].seen;
  at.input(random_numbers(2 * odd<direct>::p.in.size(), 9));
  at.forward();
  CHECK(at.watch.layers[0].seen.low <= one.low);
  CHECK(at.watch.layers[0].seen.high >= one.high);
  odd<direct> none(0);
  CHECK(none.forward().empty());
  CHECK_FALSE(none.watch.layers[0].seen.seen());
}

TEST_CASE_TEMPLATE("int8: what only fills up a block is neither counted nor a share", T,
                   odd<direct>, first<direct>, first<reference>) {
  T at(3);
  auto x = random_numbers(size(3) * T::p.in.size(), 4);
  for (double& v : x) v = (v + 1.01) / 2;  // no zeros of its own
  at.input(x);
  at.quantisation.percentile = 90;
  std::vector<double> wanted(number_bins::count);
  const std::vector<float> plainly(x.begin(), x.end());
  count_numbers(x.size(), plainly.data(), wanted, {});
  at.forward();
  CHECK(at.watch.counts == wanted);
  at.low() = -1;
  at.high() = 0.5f;
  at.watch.how = quantisation_watch::runs::compared;
  at.forward(phase::evaluate);
  CHECK(at.watch.layers[0].count == x.size());
  const auto beyond = std::count_if(x.begin(), x.end(), [](double v) { return v > 0.51; });
  CHECK(at.watch.layers[0].clipped == doctest::Approx(static_cast<double>(beyond)).epsilon(0.05));
}

TEST_CASE("int8: it reads what was published, as bytes and as floats; a zero filter stays zero") {
  odd<direct> at(2);
  at.low() = -1;
  at.high() = 1;
  auto w = random_numbers(odd<direct>::p.weights(), 2);
  const std::size_t each = w.size() / 20;
  std::fill(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(each), 0.0);
  at.weights(w);
  const auto before = at.forward();
  for (std::size_t i = 0; i < 30; ++i) CHECK(before[i] == 0);  // filter 0 of sample 0
  for (double& v : w) v = -v;
  at.weights(w);
  auto after = at.forward();
  for (double& v : after) v = -v;
  CHECK(after == before);
}
